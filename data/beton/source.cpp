#include "data/beton/source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "composer/clock.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/storage/atomic_file.h"
#include "data/index_place.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

size_t field_of(const BetonFile& file, BetonType type, const char* what) {
  const auto field = file.find_field(type);
  if (field) return *field;
  throw UserError(file.path().string() + ": has no " + what +
                  " field; a set of images has one image and one integer field");
}

/// Says every five seconds how far it is. folder: that of `out`.
void copy_whole(const fs::path& from, uint64_t bytes, const fs::path& folder, AtomicFile& out) {
  std::ifstream in(from, std::ios::binary);
  std::vector<uint8_t> block(size_t{8} << 20);
  const double begin = steady_seconds();
  double told = begin;
  while (in.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size())),
         in.gcount() > 0) {
    out.write({block.data(), static_cast<size_t>(in.gcount())});
    const double now = steady_seconds(), done = static_cast<double>(out.position());
    if (now - told < 5 || out.position() >= bytes) continue;
    told = now;
    log::info("copying " + from.string() + " to " + folder.string() + ": " +
              std::to_string(out.position() * 100 / bytes) + " %, " +
              std::to_string(static_cast<int64_t>(done / 1e6 / (now - begin))) + " MB/s");
  }
  if (out.position() != bytes) {
    throw RunError(from.string() + ": " + std::to_string(out.position()) + " of its " +
                   std::to_string(bytes) + " bytes could be read");
  }
}

/// source: the stamp of the file that both are of. An index that serves it may be another
/// process's, which adds to it: it stays as it is.
void copy_index(const fs::path& from, const fs::path& to, const FileStamp& source) {
  if (IndexTable(from, source).empty() || !IndexTable(to, source).empty()) return;
  try {
    AtomicFile out(to);
    copy_whole(from, fs::file_size(from), to.parent_path(), out);
    replace_useless_index(to, source, out);
  } catch (const RunError& problem) {
    log::warn("the crop index was not copied: " + std::string(problem.what()));
  }
}

}  // namespace

BetonSource::BetonSource(const std::string& path, int64_t channels)
    : file_(path),
      channels_(channels),
      image_field_(field_of(file_, BetonType::image, "image")),
      label_field_(field_of(file_, BetonType::integer, "integer")) {}

std::string BetonSource::name(int64_t index) const {
  return file_.path().string() + ", sample " + std::to_string(index);
}

StoredImage BetonSource::open(int64_t index, ReadScratch&) const {
  const BetonImage stored = file_.image(index, image_field_);
  StoredImage image{.jpeg = stored.jpeg, .bytes = stored.bytes, .size = stored.size};
  image.mapping = &file_.mapping();
  if (image.jpeg) image.index = IndexSlot(static_cast<uint64_t>(index));
  return image;
}

int64_t BetonSource::page(int64_t index) const {
  try {
    return static_cast<int64_t>(file_.page(index, image_field_));
  } catch (const RunError&) {
    return 0;  // open() will tell
  }
}

std::optional<Extent> BetonSource::extent(int64_t index, bool whole_page) const {
  std::span<const uint8_t> bytes;
  try {
    bytes = file_.image(index, image_field_).bytes;
  } catch (const RunError&) {
    return std::nullopt;
  }
  const auto begin = static_cast<uint64_t>(bytes.data() - file_.mapping().bytes().data());
  if (!whole_page) return Extent{.begin = begin, .end = begin + bytes.size()};
  const uint64_t page = file_.page_size(), number = begin / page;
  return Extent{
      .begin = number * page,
      .end = std::min(std::max((number + 1) * page, begin + bytes.size()), file_.file_bytes())};
}

void BetonSource::bring(const Extent& extent) const {
  file_.mapping().bring(file_.mapping().bytes().subspan(extent.begin, extent.bytes()));
}

void BetonSource::forget(int64_t index, bool whole_page) const {
  constexpr uint64_t largest_unit = 256 << 10;  // the system drops whole units of pages only
  const auto bytes = extent(index, whole_page);
  if (!bytes) return;
  const auto begin = bytes->begin - std::min(bytes->begin, largest_unit);
  const auto end = std::min(bytes->end + largest_unit, file_.file_bytes());
  file_.mapping().forget(file_.mapping().bytes().subspan(begin, end - begin));
}

bool is_beton(const fs::path& path) {
  const auto ending = path.extension();
  if (ending == ".beton" || ending == ".ffcv") return true;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  char head[2] = {};
  std::ifstream(path, std::ios::binary).read(head, 2);
  return head[0] == 2 && head[1] == 0;
}

std::string copy_to_folder(const std::string& path, const std::string& folder, bool with_index) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path to = fs::path(folder) / fs::path(path).filename();
  if (!fs::is_regular_file(path, error)) throw UserError(path + ": there is no such file");
  const uint64_t bytes = fs::file_size(path);
  const auto time = fs::last_write_time(path);
  if (fs::is_regular_file(to, error) && fs::file_size(to) == bytes &&
      fs::last_write_time(to) == time) {
    return to.string();
  }
  remove_partial_files(folder);
  try {
    AtomicFile out(to);
    copy_whole(path, bytes, folder, out);
    out.set_time(time);  // a process that finds the file takes it for the same by its time
    out.commit();
  } catch (const RunError& problem) {
    throw UserError(folder + ": has no copy of " + path + ", which needs " +
                    std::to_string(bytes / 1'000'000) + " MB of room: " + problem.what());
  }
  if (with_index) copy_index(index_file_of(path), index_file_of(to), stamp_of(to));
  return to.string();
}

}  // namespace composer
