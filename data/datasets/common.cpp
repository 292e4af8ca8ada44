#include "data/datasets/common.h"

#include <filesystem>

#include "composer/error.h"

namespace composer {

void FfcvParams::refuse() const {
  if (!use_ffcv) return;
  throw UserError("use_ffcv: .beton files (" +
                  (std::filesystem::path(ffcv_dir) / ffcv_dest).string() +
                  ") cannot be read yet; use_ffcv: false reads the original files from datadir");
}

Normalization imagenet_normalization() {
  return {{0.485 * 255, 0.456 * 255, 0.406 * 255}, {0.229 * 255, 0.224 * 255, 0.225 * 255}};
}

std::unique_ptr<Loader> open_loader(std::shared_ptr<const Source> source,
                                    const Transform& transform, Normalization normalization,
                                    const DatasetParams& params, const LoaderOptions& options) {
  return make_image_loader(std::move(source),
                           {.transform = transform,
                            .normalization = std::move(normalization),
                            .shuffle = params.shuffle,
                            .drop_last = params.drop_last,
                            .training = params.is_train},
                           options);
}

std::unique_ptr<Loader> open_file_loader(const std::vector<std::string>& files, int64_t channels,
                                         const Transform& transform, Normalization normalization,
                                         const LoaderOptions& options) {
  return make_image_loader(open_image_files(files, channels),
                           {.transform = transform, .normalization = std::move(normalization)},
                           options);
}

Transform fitted(ImageSize size) {
  return {.kind = Transform::Kind::center_crop,
          .resize_size = std::max(size.height, size.width),
          .size = size};
}

std::string checked_datadir(const std::string& datadir, const std::string& expected) {
  if (datadir.empty())
    throw UserError("datadir: missing; it must name the folder with " + expected);
  std::error_code error;
  if (!std::filesystem::exists(datadir, error)) {
    throw UserError("datadir: there is no folder '" + datadir + "'; expected " + expected);
  }
  if (!std::filesystem::is_directory(datadir, error)) {
    throw UserError("datadir: '" + datadir + "' is not a folder; expected a folder with " +
                    expected);
  }
  return datadir;
}

}  // namespace composer
