// MNIST's handwritten digits (LeCun et al. 1998) from the original idx files, compressed or not.
#pragma once

#include "data/datasets/common.h"

namespace composer {

class MnistDataset final : public Dataset {
 public:
  struct Params : DatasetParams {
    bool download = false;
    bool use_synthetic = false;
    int64_t synthetic_num_unique_samples = 100;

    void fields(auto&& f) {
      DatasetParams::fields(f);
      f("download", download, "accepted for old recipes; nothing is ever downloaded");
      f("use_synthetic", use_synthetic, "noise in place of the data, as many samples");
      f("synthetic_num_unique_samples", synthetic_num_unique_samples,
        "different images of use_synthetic", at_least(1));
    }
  };

  explicit MnistDataset(Params params) : params_(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                     const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override {
    return params_.is_train ? 60000 : 10000;
  }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {28, 28}; }
  std::optional<int64_t> num_classes() const override { return 10; }
  std::vector<std::string> class_names() const override;

 private:
  std::shared_ptr<Source> read() const;

  Params params_;
};

}  // namespace composer
