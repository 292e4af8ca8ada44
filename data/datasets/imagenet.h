// ImageNet-1k (ILSVRC 2012) from its class folders.
#pragma once

#include "data/datasets/image_folder.h"

namespace composer {

class ImagenetDataset final : public PreparedDataset, public TellsFacts {
 public:
  struct Params : FolderParams, StandInParams {
    Params() { ffcv.ffcv_dest = "imagenet_train.ffcv"; }

    void fields(auto&& f) {
      FolderParams::fields(f);
      StandInParams::fields(f);
    }
    std::string check() const { return FolderParams::check() + StandInParams::check(ffcv); }
  };

  explicit ImagenetDataset(Params params) : params_(std::move(params)) {
    if (!params_.use_synthetic) read_beton_at_datadir(params_);
  }

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override {
    return folder_preparation(params_, options);
  }
  std::optional<int64_t> published_samples() const override {
    return params_.is_train ? 1281167 : 50000;
  }
  bool can_split() const override { return true; }
  DataLocation location() const override {
    return params_.use_synthetic ? DataLocation{} : folder_place(params_);
  }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {params_.crop_size, params_.crop_size}; }
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override;
  std::optional<int64_t> num_labels() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_labels() : std::nullopt;
  }
  std::vector<std::string> class_names() const override;
  bool finds_classes_by_name() const override { return !params_.ffcv.use_ffcv; }
  std::optional<DataFacts> facts(const LoaderOptions& options) const override;

 private:
  Params params_;
};

}  // namespace composer
