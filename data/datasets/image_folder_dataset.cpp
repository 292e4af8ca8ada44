#include "base/error.h"
#include "base/log.h"
#include "base/remote/listing.h"
#include "base/remote/remote_path.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/photo_dataset.h"
#include "data/datasets/remote_folder.h"
#include "data/datasets/synthetic.h"

namespace composer {
namespace {

constexpr int64_t kSyntheticClasses = 1000;

int64_t images_of_part(bool is_train) { return is_train ? 1281167 : 50000; }

/// The number of the class folders; nullopt where there are none.
std::optional<int64_t> folder_class_count(const FolderParams& params) {
  const size_t count = folder_classes(params.datadir, params.ffcv.remote).size();
  return count > 0 ? std::optional(static_cast<int64_t>(count)) : std::nullopt;
}

void check_written_classes(const FolderParams& params, OnBadSample on_bad_sample) {
  const auto& ffcv = params.ffcv;
  const auto written = ffcv.num_classes(), folders = folder_class_count(params);
  if (!written || !folders || *written == *folders) return;
  // val/ may lack the last classes, and the file lacks classes whose images are all bad.
  const bool may_lack_some = !params.is_train || on_bad_sample != OnBadSample::error;
  if (may_lack_some && *written < *folders) return;
  throw UserError("ffcv_dest: '" + shown_path(ffcv.path()) + "' is there, with " +
                  std::to_string(*written) + " classes, and datadir: '" + params.datadir +
                  "' has " + std::to_string(*folders) +
                  ": it holds other data; leave ffcv_write_dataset out to read it as it is, or "
                  "give another ffcv_dest to write one of this datadir");
}

/// Warns where the .beton file was written from other samples than the class folders have now. The
/// bad samples that it may lack are not known.
void warn_of_other_samples(const FolderParams& params, const LoaderOptions& options) {
  const auto& ffcv = params.ffcv;
  if (!ffcv.targets.empty() || is_remote(ffcv.path()) || !ffcv.is_there() ||
      options.on_bad_sample != OnBadSample::error || !options.tells)
    return;
  std::string difference;
  try {
    const BetonSource written(ffcv.path(), 3);
    const auto now = open_class_folders(params, options.on_bad_sample, options.index_dir);
    if (written.size() != now->size())
      difference = std::to_string(written.size()) + " samples, and there are " +
                   std::to_string(now->size()) + " now";
    for (int64_t i = 0; difference.empty() && i < written.size(); ++i)
      if (label_of(written, i) != label_of(*now, i))
        difference = "other classes than there are now, first of its sample " + std::to_string(i);
  } catch (const std::exception&) {  // the original files need not exist any more
    return;
  }
  if (!difference.empty())
    log::warn("ffcv_dest: " + ffcv.path() + " has " + difference +
              ", and its samples count; unless it was made otherwise, delete it, so that it is "
              "written anew");
}

/// Throws UserError where ffcv_write_dataset finds a .beton file with other classes than the
/// folders have. Warns where the file has other samples.
void check_written_file(const FolderParams& params, const LoaderOptions& options) {
  const auto& ffcv = params.ffcv;
  if (!ffcv.use_ffcv || !ffcv.ffcv_write_dataset || is_remote(params.datadir)) return;
  check_written_classes(params, options.on_bad_sample);
  warn_of_other_samples(params, options);
}

}  // namespace

DataLocation ImageFolderDataset::location() const {
  if (params_.ffcv.use_ffcv) return params_.ffcv.location(params_.rows);
  if (is_remote(params_.datadir))
    return {
        remote_part_folder(list_files(RemotePath(params_.datadir), params_.ffcv.remote), params_),
        params_.rows};
  return {part_folder(params_.datadir, params_.is_train, kClassFolders).string(), params_.rows};
}

std::optional<int64_t> ImageFolderDataset::num_classes() const {
  const auto& ffcv = params_.ffcv;
  if (!ffcv.use_ffcv) return folder_class_count(params_);
  const auto count = ffcv.num_classes();
  // A .beton file that is yet to be written will have the folders' classes.
  return count || !ffcv.ffcv_write_dataset ? count : folder_class_count(params_);
}

std::unique_ptr<Loader> ImageFolderDataset::open(const LoaderOptions& options) const {
  check_written_file(with_part_to_open(params_, options), options);
  return FolderDataset::open(options);
}

std::unique_ptr<Loader> ImagenetDataset::open(const LoaderOptions& options) const {
  if (!stand_in_.use_synthetic) return ImageFolderDataset::open(options);
  const bool is_train = with_part_to_open(params_, options).is_train;
  warn_of_transforms(is_train, params_.transforms != TransformParams{});
  const auto noise = make_synthetic({.size = image_size(),
                                     .num_classes = kSyntheticClasses,
                                     .samples = images_of_part(is_train),
                                     .unique = stand_in_.synthetic_num_unique_samples});
  return open_loader(noise, {.size = image_size()}, params_.transforms, imagenet_normalization(),
                     params_, options);
}

std::optional<int64_t> ImagenetDataset::published_samples() const {
  return images_of_part(params_.is_train);
}

DataLocation ImagenetDataset::location() const {
  return stand_in_.use_synthetic ? DataLocation{} : ImageFolderDataset::location();
}

std::optional<int64_t> ImagenetDataset::num_classes() const {
  return stand_in_.use_synthetic ? kSyntheticClasses : ImageFolderDataset::num_classes();
}

std::optional<DataFacts> ImagenetDataset::facts(const LoaderOptions& options) const {
  return stand_in_.use_synthetic ? std::nullopt : ImageFolderDataset::facts(options);
}

std::vector<std::string> ImagenetDataset::class_names() const {
  const bool is_noise = stand_in_.use_synthetic && params_.ffcv.targets.empty();
  return is_noise ? std::vector<std::string>{} : ImageFolderDataset::class_names();
}

}  // namespace composer
