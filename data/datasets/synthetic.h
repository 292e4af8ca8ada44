// Images of noise: for measuring and for trying recipes without data.
#pragma once

#include "data/datasets/dataset_params.h"

namespace composer {

struct SyntheticSpec {
  ImageSize size;
  int64_t channels = 3;
  int64_t num_classes = 10;
  int64_t samples = 0;
  int64_t unique = 100;  ///< different images; they come round again
};

/// The same images every time.
std::shared_ptr<Source> make_synthetic(const SyntheticSpec& spec);

/// The original files, a .beton file or noise, as the parameters say.
std::shared_ptr<Source> open_published(const FfcvParams& ffcv, const StandInParams& stand_in,
                                       SyntheticSpec noise,
                                       const std::function<std::shared_ptr<Source>()>& original,
                                       const LoaderOptions& options);

struct SyntheticParams : DatasetParams {
  int64_t height = 224;
  int64_t width = 224;
  int64_t channels = 3;
  int64_t num_classes = 1000;
  int64_t samples = 10000;

  void fields(auto&& f) {
    DatasetParams::fields(f);
    f("height", height, "of the images", in(1, 4096));
    f("width", width, "of the images", in(1, 4096));
    f("channels", channels, "3 for colour, 1 for gray", in(1, 3));
    f("num_classes", num_classes, "classes, drawn at random", in(1, 1e6));
    f("samples", samples, "images an epoch; 100 different ones come round again", in(1, 4e9));
  }
  std::string check() const {
    return DatasetParams::check() + (channels == 2 ? "channels: must be 1 or 3\n" : "");
  }
};

class SyntheticDataset final : public PreparedDataset<SyntheticParams> {
 public:
  explicit SyntheticDataset(Params params) : PreparedDataset(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override { return params_.samples; }
  bool can_split() const override { return true; }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {params_.height, params_.width}; }
  std::optional<int64_t> num_classes() const override { return params_.num_classes; }

 private:
  Normalization normalization() const;
};

}  // namespace composer
