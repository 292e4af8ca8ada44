// MNIST's handwritten digits (LeCun et al. 1998) from the original idx files, compressed or not.
#pragma once

#include <filesystem>

#include "data/datasets/dataset_params.h"

namespace composer {

class MnistDataset final : public PreparedDataset {
 public:
  struct Params : DatasetParams, StandInParams {
    bool download = false;
    FfcvParams ffcv{.ffcv_dest = "mnist_train.ffcv"};

    void fields(auto&& f) {
      DatasetParams::fields(f);
      f("download", download, "accepted for old recipes; nothing is ever downloaded");
      ffcv.fields(f);
      StandInParams::fields(f);
    }
    std::string check() const {
      return DatasetParams::check() + ffcv.check() + StandInParams::check(ffcv);
    }
  };

  explicit MnistDataset(Params params) : params_(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override {
    return params_.is_train ? 60000 : 10000;
  }
  bool can_split() const override { return true; }
  DataLocation location() const override { return params_.ffcv.location(params_.rows); }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {28, 28}; }
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_classes().value_or(10) : 10;
  }
  std::vector<std::string> class_names() const override;

 private:
  Params params_;
};

/// Whether the images of the part are in datadir, as open_mnist() finds them.
bool has_mnist(const std::filesystem::path& datadir, bool is_train);

/// The idx files of the training or the test part in datadir or in MNIST/raw below it. Throws
/// UserError naming what is missing or damaged.
std::shared_ptr<Source> open_mnist(const std::string& datadir, bool is_train);

}  // namespace composer
