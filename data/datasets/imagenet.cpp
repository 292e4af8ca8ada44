#include "data/datasets/imagenet.h"

#include "data/datasets/synthetic.h"

namespace composer {

constexpr int64_t kSyntheticClasses = 1000;

std::unique_ptr<Loader> ImagenetDataset::open(const LoaderOptions& options) const {
  const auto part = with_part_to_open(params_, options);
  check_written_file(part, options);
  const SyntheticSpec noise{.size = image_size(),
                            .channels = 3,
                            .num_classes = kSyntheticClasses,
                            .samples = *ImagenetDataset(part).published_samples()};
  const auto source = open_published(
      part.ffcv, part, noise, [&] { return open_class_folders(params_, part, options); }, options);
  warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
  const Transform transform = params_.use_synthetic
                                  ? Transform{.size = image_size()}
                                  : folder_transform(params_, params_.is_train, options);
  return open_loader(source, transform, params_.transforms, imagenet_normalization(), params_,
                     options);
}

std::optional<int64_t> ImagenetDataset::num_classes() const {
  if (params_.use_synthetic) return kSyntheticClasses;
  return class_count(params_);
}

std::optional<DataFacts> ImagenetDataset::facts(const LoaderOptions& options) const {
  return params_.use_synthetic ? std::nullopt : folder_facts(params_, options);
}

std::vector<std::string> ImagenetDataset::class_names() const {
  if (!params_.ffcv.targets.empty()) return params_.ffcv.value_names();
  return params_.use_synthetic ? std::vector<std::string>{}
                               : folder_classes(params_.datadir, params_.ffcv.remote);
}

}  // namespace composer
