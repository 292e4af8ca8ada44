// Images of noise, for measuring and for trying recipes without data; they may stand in for a
// published set.
#pragma once

#include "base/log.h"
#include "data/datasets/dataset_params.h"

namespace composer {

struct SyntheticSpec {
  ImageSize size;
  int64_t channels = 3;
  int64_t num_classes = 10;
  int64_t samples = 0;
  int64_t unique = 100;  ///< number of different images, which are repeated
};

/// The images of the specification, the same at each call.
std::shared_ptr<Source> make_synthetic(const SyntheticSpec& spec);

/// The keys of a published set of small images in ten classes.
struct PublishedParams : DatasetParams, StandInParams {
  bool download = false;
  FfcvParams ffcv;

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

/// A published set of small images in ten classes. P: derived from PublishedParams, with
/// kTrainSamples, kTestSamples, kChannels, kSize and normalization() of the set.
template <class P>
class PublishedDataset : public PreparedDataset<P> {
 public:
  using PreparedDataset<P>::PreparedDataset;

  std::optional<Preparation> preparation(const LoaderOptions&) const override {
    return fitted(P::kChannels, P::kSize, P::normalization());
  }
  std::optional<int64_t> published_samples() const override { return samples_of(params_); }
  DataLocation location() const override { return params_.ffcv.location(params_.rows); }
  ImageSize image_size() const override { return P::kSize; }
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_classes().value_or(10) : 10;
  }

 protected:
  /// Noise, the .beton file, or the original files, which open_files(datadir, is_train) opens.
  std::shared_ptr<Source> open_source(const LoaderOptions& options, const auto& open_files) const {
    if (params_.download) log::warn("download: true has no effect, nothing is downloaded");
    const auto part = with_part_to_open(params_, options);
    if (part.use_synthetic)
      return make_synthetic({.size = P::kSize,
                             .channels = P::kChannels,
                             .samples = samples_of(part),
                             .unique = part.synthetic_num_unique_samples});
    return part.ffcv.open(
        P::kChannels, [&] { return open_files(part.datadir, part.is_train); }, options);
  }

  using PreparedDataset<P>::params_;

 private:
  static int64_t samples_of(const P& part) {
    return part.is_train ? P::kTrainSamples : P::kTestSamples;
  }
};

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
  ImageSize image_size() const override { return {params_.height, params_.width}; }
  std::optional<int64_t> num_classes() const override { return params_.num_classes; }

 private:
  Normalization normalization() const;
};

}  // namespace composer
