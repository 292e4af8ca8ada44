#include "cli/predict_images.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/sources.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"
#include "data/samples/list_file.h"

namespace composer {
namespace {

/// The image files at --source, or one .beton file.
std::vector<std::string> files_of(const std::string& source) {
  std::error_code none;
  if (!is_remote(source) && !std::filesystem::exists(source, none))
    throw UserError("--source: " + source + " does not exist" + slash_hint(source));
  if (is_remote(source) && is_beton(source)) return {source};
  auto files = [&] {
    try {
      return image_files(source);
    } catch (const UserError& error) {
      throw UserError("--source: " + std::string(error.what()));
    }
  }();
  if (files.size() == 1 && files[0] == source) return files;
  std::set<std::string> endings;  // extensions of the files that are no images
  const auto others = std::erase_if(files, [&](const std::string& file) {
    const auto name = file_name_of(file);
    if (has_image_name(name)) return false;
    endings.insert(name.has_extension() ? name.extension().string() : "no ending");
    return true;
  });
  if (files.empty()) throw UserError("--source: no image files in " + shown_path(source));
  if (others > 0)
    log::warn("--source: left out what is no image that can be read by its name: " +
              std::to_string(others) + (others == 1 ? " file (" : " files (") +
              first_few({endings.begin(), endings.end()}) + ")");
  return files;
}

}  // namespace

PredictImages predict_images(const std::string& source) {
  if (!is_list_file(source)) return {files_of(source)};
  if (is_remote(source))
    throw UserError("--source: '" + shown_path(source) + "' is remote; lists are read from a disk");
  PredictImages images{{}, {.list = source}};
  for (auto& file : listed_images(source)) {
    images.files.push_back(std::move(file.path));
    images.labels.texts.push_back(std::move(file.label));
    images.labels.lines.push_back(file.line);
  }
  return images;
}

}  // namespace composer
