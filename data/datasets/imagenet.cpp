#include "data/datasets/imagenet.h"

#include "data/datasets/synthetic.h"

namespace composer {

constexpr int64_t kSyntheticClasses = 1000;

std::unique_ptr<Loader> ImagenetDataset::open(const LoaderOptions& options) const {
  params_.ffcv.refuse();
  if (params_.use_synthetic) {
    const auto source = make_synthetic({.size = image_size(),
                                        .channels = 3,
                                        .num_classes = kSyntheticClasses,
                                        .samples = *published_samples(),
                                        .unique = params_.synthetic_num_unique_samples});
    return open_loader(source, {.size = image_size()}, imagenet_normalization(), params_, options);
  }
  return open_loader(open_class_folders(params_), folder_transform(params_, params_.is_train),
                     imagenet_normalization(), params_, options);
}

std::unique_ptr<Loader> ImagenetDataset::open_files(std::vector<std::string> files,
                                                    const LoaderOptions& options) const {
  return open_file_loader(files, 3, folder_transform(params_, false), imagenet_normalization(),
                          options);
}

std::optional<int64_t> ImagenetDataset::num_classes() const {
  return params_.use_synthetic ? kSyntheticClasses : folder_class_count(params_.datadir);
}

std::vector<std::string> ImagenetDataset::class_names() const {
  return params_.use_synthetic ? std::vector<std::string>{} : folder_classes(params_.datadir);
}

}  // namespace composer
