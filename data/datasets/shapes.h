// Drawn shapes: a small set that a network learns in a minute, and that needs no files. The
// quickstart trains on it.
#pragma once

#include "data/datasets/dataset_params.h"

namespace composer {

struct ShapesParams {
  bool is_train = true;
  bool drop_last = true;
  bool shuffle = true;
  std::optional<int64_t> samples;
  int64_t size = 32;
  std::string ffcv_dir{};

  void fields(auto&& f) {
    f("is_train", is_train,
      "the training part with its augmentation; false, as always under val_dataset: the part "
      "for evaluation");
    f("drop_last", drop_last,
      "leave out an incomplete batch at the end of an epoch; false under val_dataset");
    f("shuffle", shuffle, "a new order each epoch; false under val_dataset");
    f("samples", samples, "images to draw; none = 2000 for training, 500 for evaluation",
      in(1, 1e6));
    f("size", size, "height and width of the images", in(16, 512));
    f("ffcv_dir", ffcv_dir,
      "folder of the .beton files that the images are drawn into; none = one of the user's own "
      "in the system's folder for temporary files");
  }
};

class ShapesDataset final : public PreparedDataset<ShapesParams> {
 public:
  explicit ShapesDataset(Params params) : PreparedDataset(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override {
    return params_.samples.value_or(params_.is_train ? 2000 : 500);
  }
  ImageSize image_size() const override { return {params_.size, params_.size}; }
  std::optional<int64_t> num_classes() const override { return 10; }
  std::vector<std::string> class_names() const override;
};

/// Sample `index` of the training or evaluation part, `size` pixels high and wide; its class is
/// index modulo 10.
Image draw_shape(bool is_train, int64_t index, int64_t size);

}  // namespace composer
