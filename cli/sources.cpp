#include "cli/sources.h"

#include <algorithm>
#include <filesystem>

#include "composer/error.h"
#include "data/beton/source.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"

namespace composer {

namespace fs = std::filesystem;

namespace {

/// Whether following this link to a folder would lead in circles.
bool leads_back(const fs::path& link) {
  std::error_code error;
  const auto target = fs::canonical(link, error);
  const auto here = fs::canonical(link.parent_path(), error);
  return error || std::mismatch(target.begin(), target.end(), here.begin(), here.end()).first ==
                      target.end();
}

/// takes_hidden: of a hidden file or folder.
template <class Predicate>
std::vector<std::string> walk(const fs::path& folder, const Predicate& takes_hidden) {
  std::vector<std::string> files;
  std::error_code error, unknown;
  const auto follow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator at(folder, follow, error), end; !error && at != end;
       at.increment(error)) {
    const auto type = at->status(unknown).type();
    const bool hidden = at->path().filename().string().starts_with('.') && !takes_hidden(at, type);
    if (type == fs::file_type::directory) {
      if (hidden || (at->is_symlink(unknown) && leads_back(at->path())))
        at.disable_recursion_pending();
    } else if (!hidden && (type == fs::file_type::regular || type == fs::file_type::not_found)) {
      files.push_back(at->path().string());
    }
  }
  if (error) throw UserError(folder.string() + ": cannot be read: " + error.message());
  if (files.empty()) throw UserError(folder.string() + ": has no files");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> files_below(const fs::path& folder) {
  return walk(folder, [](const auto&, auto) { return false; });
}

std::vector<std::string> files_of_training(const fs::path& folder) {
  std::error_code unknown;
  const bool parts =
      fs::is_directory(folder / "train", unknown) || fs::is_directory(folder / "val", unknown);
  const int classes = parts ? 1 : 0;  // the depth of their folders
  return walk(folder, [&](const auto& at, fs::file_type type) {
    return at.depth() > classes &&
           (type == fs::file_type::directory || is_meant_as_image(at->path()));
  });
}

std::shared_ptr<FileSource> open_folder_files(const std::string& folder) {
  auto files = files_below(folder);
  std::erase_if(files, [](const auto& file) { return !has_image_name(file); });
  if (files.empty()) throw UserError(folder + ": has no image files");
  auto source = std::make_shared<FileSource>(3);
  for (const auto& file : files) source->add(file, 0);
  source->index_below(folder);
  return source;
}

std::shared_ptr<Source> open_source(const std::string& path, bool is_train,
                                    OnBadSample on_bad_sample) {
  std::error_code error;
  if (!fs::exists(path, error)) throw UserError(path + ": there is no such file or folder");
  if (!fs::is_directory(path, error)) return std::make_shared<BetonSource>(path, 3);
  for (const char* file : {"data_batch_1.bin", "cifar-10-batches-bin"}) {
    if (fs::exists(fs::path(path) / file, error)) return open_cifar10(path, is_train);
  }
  if (folder_classes(path).empty()) return open_folder_files(path);
  FolderParams params;
  params.datadir = path;
  params.is_train = is_train;
  return open_class_folders(params, on_bad_sample);
}

}  // namespace composer
