// CIFAR-10 (Krizhevsky 2009) from the binary version's files.
#pragma once

#include "data/datasets/synthetic.h"

namespace composer {

struct Cifar10Params : PublishedParams {
  static constexpr int64_t kTrainSamples = 50000, kTestSamples = 10000, kChannels = 3;
  static constexpr ImageSize kSize{32, 32};
  static Normalization normalization();

  PaddedTransformParams transforms;

  Cifar10Params() { ffcv.ffcv_dest = "cifar_train.ffcv"; }

  void fields(auto&& f) {
    PublishedParams::fields(f);
    f("transforms", transforms, "what is done to single training images");
  }
};

class Cifar10Dataset final : public PublishedDataset<Cifar10Params> {
 public:
  explicit Cifar10Dataset(Params params) : PublishedDataset(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::vector<std::string> class_names() const override;
};

/// The records of the binary version's files in datadir or datadir/cifar-10-batches-bin. Throws
/// UserError naming files that are missing or damaged.
std::shared_ptr<Source> open_cifar10(const std::string& datadir, bool is_train);

/// The names in the set's batches.meta.txt, or the published ones.
std::vector<std::string> cifar10_class_names(const std::string& datadir);

}  // namespace composer
