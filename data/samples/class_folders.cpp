#include "data/samples/class_folders.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files/system_files.h"
#include "base/several_threads.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

/// Lists the folders and images below one folder.
class Lister {
 public:
  Lister(const fs::path& folder, ClassListing& listing)
      : folder_(folder.string()), root_(with_slash(folder)), listing_(listing) {}

  /// path: below the folder.
  void list(const std::string& path) {
    const Folder folder = open(path);
    const int file = ::dirfd(folder.get());
    struct stat status {};
    if (::fstat(file, &status) != 0) fail(path, errno);
    const std::pair identity(status.st_dev, status.st_ino);
    if (std::ranges::find(above_, identity) != above_.end()) return;
    above_.push_back(identity);
    const PathStamp before = path_stamp_of(file);
    const int64_t begin = wall_clock_ns();
    const auto folders = read(folder.get(), path);
    listing_.watched.emplace_back(path, settled(before, path_stamp_of(file), begin));
    for (const auto& below : folders) list(below);
    above_.pop_back();
  }

 private:
  Folder open(const std::string& path) const {
    Folder folder(::opendir((root_ + path).c_str()), ::closedir);
    if (!folder) fail(path, errno);
    return folder;
  }

  /// Notes the folder's images. Returns the paths of the folders in it.
  std::vector<std::string> read(DIR* folder, const std::string& path) {
    const std::string in = path.empty() ? "" : path + '/';
    std::vector<std::string> folders;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(folder);
      if (entry == nullptr) {
        if (errno != 0) fail(path, errno);
        return folders;
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == ".." || is_system_file(name)) continue;
      if (is_folder(::dirfd(folder), *entry, in))
        folders.push_back(in + entry->d_name);
      else if (file_kind_of(name) != FileKind::other)
        listing_.images.push_back(in + entry->d_name);
      else if (!name.starts_with('.') && listing_.others++ == 0)
        listing_.an_other = in + entry->d_name;
    }
  }

  bool is_folder(int folder, const dirent& entry, const std::string& in) {
    if (entry.d_type == DT_DIR) return true;
    if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return false;
    struct stat status {};
    const bool known = ::fstatat(folder, entry.d_name, &status, 0) == 0;
    if (known && S_ISDIR(status.st_mode)) return true;
    // The link may lead to a folder one day, without a change of the folder that the link is in.
    const bool is_image =
        known && S_ISREG(status.st_mode) && file_kind_of(entry.d_name) == FileKind::image;
    if (entry.d_type == DT_LNK && !is_image)
      listing_.watched.emplace_back(in + entry.d_name, PathStamp{.kind = PathStamp::no_folder});
    return false;
  }

  [[noreturn]] void fail(const std::string& path, int error) const {
    throw UserError((path.empty() ? folder_ : root_ + path) +
                    ": cannot be read: " + std::strerror(error));
  }

  const std::string folder_, root_;
  ClassListing& listing_;
  std::vector<std::pair<dev_t, ino_t>> above_;  ///< the folder that is read, and its parents
};

}  // namespace

FileKind file_kind_of(std::string_view name) {
  if (is_system_file(name.substr(name.rfind('/') + 1))) return FileKind::other;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return FileKind::other;
  const std::string ending = lower_case(std::string(name.substr(dot)));
  for (const char* known : {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp",
                            ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"})
    if (ending == known) return FileKind::image;
  for (const char* known : {".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".exr"})
    if (ending == known) return FileKind::unreadable_image;
  return FileKind::other;
}

std::string with_slash(const fs::path& folder) { return (folder / "").string(); }

std::vector<ClassListing> list_class_folders(const fs::path& folder,
                                             const std::vector<std::string>& classes) {
  std::vector<ClassListing> listings(classes.size());
  in_several_threads(classes.size(), [&](uint64_t i) {
    ClassListing& listing = listings[i];
    try {
      Lister(folder, listing).list(classes[i]);
      std::ranges::sort(listing.images);
    } catch (const UserError&) {
      listing.error = std::current_exception();
    }
  });
  return listings;
}

std::vector<std::string> images_below(const fs::path& folder) {
  ClassListing listing;
  Lister(folder, listing).list("");
  return std::move(listing.images);
}

std::optional<std::vector<uint8_t>> class_table(const std::vector<std::string>& classes,
                                                const std::vector<ClassListing>& listings) {
  SampleTableWriter writer;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (listings[i].error) return std::nullopt;
    writer.add_class(classes[i]);
    for (const auto& image : listings[i].images) writer.add_file(image, static_cast<int32_t>(i));
    for (const auto& [path, stamp] : listings[i].watched) writer.watch(path, stamp);
  }
  return writer.bytes();
}

std::vector<int32_t> indices_of(const std::vector<std::string>& classes,
                                const std::vector<std::string>& names) {
  std::unordered_map<std::string, int32_t> indices;
  for (size_t i = 0; i < names.size(); ++i) indices.emplace(names[i], static_cast<int32_t>(i));
  std::vector<int32_t> found;
  for (const auto& name : classes) {
    const auto index = indices.find(name);
    found.push_back(index == indices.end() ? -1 : index->second);
  }
  return found;
}

}  // namespace composer
