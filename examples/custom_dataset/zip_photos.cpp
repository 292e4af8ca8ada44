#include <algorithm>
#include <filesystem>
#include <map>

#include "base/files/byte_reader.h"
#include "cli/main.h"
#include "composer/composer.h"
#include "data/datasets/photo_dataset.h"
#include "data/samples/coded_source.h"

using namespace composer;

/// The files of a ZIP archive that holds them as they are, in its order: path, bytes. Throws
/// FormatError with the reason.
std::vector<std::pair<std::string, std::span<const uint8_t>>> files_in_zip(
    std::span<const uint8_t> zip) {
  std::vector<std::pair<std::string, std::span<const uint8_t>>> files;
  const auto last = std::ranges::find_end(zip, std::string_view("PK\5\6"));
  if (last.empty()) throw FormatError("no ZIP archive, or cut off");
  ByteReader tail(zip, static_cast<uint64_t>(last.begin() - zip.begin()) + 10);
  const auto count = tail.number<uint16_t>();
  if (count == 0xFFFF) throw FormatError("more than 65534 files, a ZIP64 archive");
  tail.take(4);
  ByteReader directory(zip, tail.number<uint32_t>());
  for (int i = 0; i < count; ++i) {
    directory.take(10);
    const auto method = directory.number<uint16_t>();
    directory.take(12);
    const auto size = directory.number<uint32_t>();
    const uint64_t name = directory.number<uint16_t>(), extra = directory.number<uint16_t>(),
                   comment = directory.number<uint16_t>();
    directory.take(8);
    ByteReader file(zip, directory.number<uint32_t>() + uint64_t{26});
    const uint64_t path = file.number<uint16_t>(), more = file.number<uint16_t>();
    file.take(path + more);
    files.emplace_back(directory.text(name), file.take(size));
    directory.take(extra + comment);
    if (method != 0)
      throw FormatError(files.back().first + " is compressed; zip -0 leaves files as they are");
  }
  return files;
}

/// The images part/.../CLASS/FILE of an archive: what composer wants to know of a set of one's own.
class ZipPhotos final : public CodedSource {
 public:
  ZipPhotos(const std::string& path, const std::string& part) : path_(path), archive_(path) {
    for (const auto& [name, bytes] : files_in_zip(archive_.bytes())) {
      if (!has_image_name(name)) continue;
      const int64_t& label = classes[std::filesystem::path(name).parent_path().filename()];
      if (name.starts_with(part + "/")) photos_.push_back({name, bytes, label});
    }
    for (int64_t next = 0; auto& [name, label] : classes) label = next++;
  }

  int64_t size() const override { return std::ssize(photos_); }
  std::string name(int64_t index) const override { return path_ + ": " + photo(index).name; }
  int64_t label(int64_t index) const override { return photo(index).label; }
  void read(int64_t index, std::vector<uint8_t>& bytes) const override {
    bytes.assign(photo(index).bytes.begin(), photo(index).bytes.end());
    archive_.check(photo(index).bytes);
  }
  std::filesystem::path indexed_path() const override { return path_; }

  std::map<std::string, int64_t> classes;  ///< of all parts, numbered in sorted order

 private:
  struct Photo {
    std::string name;
    std::span<const uint8_t> bytes;
    const int64_t& label;
  };
  const Photo& photo(int64_t index) const { return photos_[static_cast<size_t>(index)]; }

  std::string path_;
  MappedFile archive_;
  std::vector<Photo> photos_;
};

struct ZipParams : FolderParams {
  std::string archive;

  void fields(auto&& f) {
    FolderParams::fields(f);
    f("archive", archive, "the ZIP archive, with images train/CLASS/... and val/CLASS/...",
      required);
  }
  OpenedSet open(const std::string& /*index_dir*/) const {
    try {
      const auto photos = std::make_shared<ZipPhotos>(archive, is_train ? "train" : "val");
      std::vector<std::string> names;
      for (const auto& [name, label] : photos->classes) names.push_back(name);
      return opened_set(photos, names);
    } catch (const FormatError& error) {
      throw UserError("archive: " + archive + ": " + error.what());
    }
  }
};

int main(int argc, char** argv) {
  registry().datasets.add<PhotoDataset<ZipParams>>("zip", "photographs in a ZIP archive");
  return composer::main(argc, argv);
}
