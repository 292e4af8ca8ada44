// CIFAR-10 (Krizhevsky 2009) from the binary version's files.
#pragma once

#include "data/datasets/common.h"

namespace composer {

class Cifar10Dataset final : public Dataset {
 public:
  struct Params : DatasetParams {
    bool download = false;
    FfcvParams ffcv{.ffcv_dest = "cifar_train.ffcv"};
    bool use_synthetic = false;
    int64_t synthetic_num_unique_samples = 100;

    void fields(auto&& f) {
      DatasetParams::fields(f);
      f("download", download, "accepted for old recipes; nothing is ever downloaded");
      ffcv.fields(f);
      f("use_synthetic", use_synthetic, "noise in place of the data, as many samples");
      f("synthetic_num_unique_samples", synthetic_num_unique_samples,
        "different images of use_synthetic", at_least(1));
    }
    std::string check() const {
      return ffcv.use_ffcv && use_synthetic ? "use_ffcv and use_synthetic exclude each other" : "";
    }
  };

  explicit Cifar10Dataset(Params params) : params_(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                     const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override {
    return params_.is_train ? 50000 : 10000;
  }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {32, 32}; }
  std::optional<int64_t> num_classes() const override { return 10; }
  std::vector<std::string> class_names() const override;

 private:
  std::shared_ptr<Source> read() const;

  Params params_;
};

}  // namespace composer
