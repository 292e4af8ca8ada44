#include "data/datasets/cifar10.h"

namespace composer {

std::unique_ptr<Loader> Cifar10Dataset::open(const LoaderOptions& options) const {
  const auto source = open_source(options, open_cifar10);
  warn_of_transforms(params_.is_train || options.split,
                     params_.transforms != PaddedTransformParams{});
  return open_loader(source, padded_transform(params_.transforms, image_size(), params_.is_train),
                     params_.transforms, Params::normalization(), params_, options);
}

std::vector<std::string> Cifar10Dataset::class_names() const {
  return params_.ffcv.targets.empty() ? cifar10_class_names(params_.datadir)
                                      : params_.ffcv.value_names();
}

}  // namespace composer
