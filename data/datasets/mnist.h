// MNIST's handwritten digits (LeCun et al. 1998) from the original idx files, compressed or not.
#pragma once

#include <filesystem>

#include "data/datasets/synthetic.h"

namespace composer {

struct MnistParams : PublishedParams {
  static constexpr int64_t kTrainSamples = 60000, kTestSamples = 10000, kChannels = 1;
  static constexpr ImageSize kSize{28, 28};
  static Normalization normalization() { return {{0}, {255}}; }

  MnistParams() { ffcv.ffcv_dest = "mnist_train.ffcv"; }
};

class MnistDataset final : public PublishedDataset<MnistParams> {
 public:
  explicit MnistDataset(Params params) : PublishedDataset(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::vector<std::string> class_names() const override;
};

/// Whether open_mnist() finds the images of the part in datadir.
bool has_mnist(const std::filesystem::path& datadir, bool is_train);

/// The idx files of the training or the test part in datadir or datadir/MNIST/raw. Throws UserError
/// naming files that are missing or damaged.
std::shared_ptr<Source> open_mnist(const std::string& datadir, bool is_train);

}  // namespace composer
