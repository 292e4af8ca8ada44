// ImageNet-1k (ILSVRC 2012) from its class folders.
#pragma once

#include "data/datasets/image_folder.h"

namespace composer {

struct ImagenetParams : FolderParams, StandInParams {
  ImagenetParams() { ffcv.ffcv_dest = "imagenet_train.ffcv"; }

  void fields(auto&& f) {
    FolderParams::fields(f);
    StandInParams::fields(f);
  }
  std::string check() const { return FolderParams::check() + StandInParams::check(ffcv); }
};

class ImagenetDataset final : public ImageFolderDataset {
 public:
  using Params = ImagenetParams;

  explicit ImagenetDataset(Params params)
      : ImageFolderDataset(params, !params.use_synthetic), stand_in_(params) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override;
  DataLocation location() const override;
  std::optional<int64_t> num_classes() const override;
  std::vector<std::string> class_names() const override;
  std::optional<DataFacts> facts(const LoaderOptions& options) const override;

 private:
  const StandInParams stand_in_;
};

}  // namespace composer
