#include "cli/sources.h"

#include <algorithm>
#include <filesystem>

#include "composer/error.h"
#include "data/beton/source.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"

namespace composer {

namespace fs = std::filesystem;

std::shared_ptr<FileSource> open_folder_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (const auto& entry : fs::recursive_directory_iterator(folder, options)) {
    if (entry.is_regular_file(error) && !entry.path().filename().string().starts_with('.'))
      files.push_back(entry.path().string());
  }
  if (files.empty()) throw UserError(folder + ": has no files");
  std::sort(files.begin(), files.end());
  auto source = std::make_shared<FileSource>(3);
  for (const auto& file : files) source->add(file, 0);
  source->index_below(folder);
  return source;
}

std::shared_ptr<Source> open_source(const std::string& path, bool is_train) {
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
  return open_class_folders(params);
}

}  // namespace composer
