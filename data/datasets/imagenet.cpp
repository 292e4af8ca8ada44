#include "data/datasets/imagenet.h"

#include "data/datasets/synthetic.h"

namespace composer {
namespace {

constexpr int64_t kSyntheticClasses = 1000;

int64_t images_of_part(bool is_train) { return is_train ? 1281167 : 50000; }

}  // namespace

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
