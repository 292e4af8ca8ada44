// CIFAR-10 (Krizhevsky 2009) from the binary version's files.
#pragma once

#include "data/datasets/dataset_params.h"

namespace composer {

class Cifar10Dataset final : public PreparedDataset {
 public:
  struct Params : DatasetParams, StandInParams {
    bool download = false;
    FfcvParams ffcv{.ffcv_dest = "cifar_train.ffcv"};
    PaddedTransformParams transforms;

    void fields(auto&& f) {
      DatasetParams::fields(f);
      f("download", download, "accepted for old recipes; nothing is ever downloaded");
      ffcv.fields(f);
      StandInParams::fields(f);
      f("transforms", transforms, "what is done to single training images");
    }
    std::string check() const {
      return DatasetParams::check() + ffcv.check() + StandInParams::check(ffcv);
    }
  };

  explicit Cifar10Dataset(Params params) : params_(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override {
    return params_.is_train ? 50000 : 10000;
  }
  bool can_split() const override { return true; }
  DataLocation location() const override { return params_.ffcv.location(params_.rows); }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {32, 32}; }
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_classes().value_or(10) : 10;
  }
  std::vector<std::string> class_names() const override;

 private:
  Params params_;
};

/// The records of the binary version's files in datadir or in cifar-10-batches-bin below it. Throws
/// UserError naming what is missing or damaged.
std::shared_ptr<Source> open_cifar10(const std::string& datadir, bool is_train);

}  // namespace composer
