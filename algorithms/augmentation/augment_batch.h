// Changes drawn for each image by itself, carried out on whole batches or on the loader's threads:
// what randaugment, trivialaugment, autoaugment and augmix share.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"
#include "base/random.h"
#include "composer/loop/algorithm.h"
#include "composer/loop/state.h"

namespace composer {

/// Of the hyperparameter `where`.
inline constexpr const char* where_doc =
    "device: whole batches before they are normalised; loader: single images on its threads";

/// images: uint8 [N, H, W, C], C is 1 or 3, on any device; they stay as they are. Gives image i as
/// draw(i) says. draw is called by several threads at once, for every i in [0, N).
at::Tensor augment_batch(const at::Tensor& images, const std::function<Steps(int64_t)>& draw);
at::Tensor augment_batch(const at::Tensor& images, const std::function<AugMixDraw(int64_t)>& draw);

/// An algorithm that changes each training image as drawn for it. Draw: Steps or AugMixDraw.
template <class Draw>
class DrawnPerImage : public Algorithm {
 public:
  SampleTransform sample_transform(const State&) override {
    if (where_ != "loader") return {};
    return [purpose = purpose_, draw = draw_](const MutableImage& image, const SampleKey& place) {
      Random random(place.seed, purpose, place.epoch, place.sample);
      apply_draw(draw(random, {image.height, image.width}), image);
    };
  }

  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  bool listens(Event event) const override { return event != Event::augment || where_ == "device"; }

  /// Draws by the batch and the image's place in that of all ranks.
  void augment(State& state) override {
    auto& images = state.raw_batch.images;
    const ImageSize size{images.size(1), images.size(2)};
    const auto batch = static_cast<uint64_t>(state.time.batch);
    images = augment_batch(images, std::function<Draw(int64_t)>([&](int64_t index) {
                             Random random(state.seed, purpose_, batch,
                                           static_cast<uint64_t>(state.first_sample + index));
                             return draw_(random, size);
                           }));
  }

 protected:
  using Drawing = std::function<Draw(Random&, ImageSize)>;

  /// where: "device" or "loader".
  DrawnPerImage(std::string purpose, std::string where, Drawing draw)
      : purpose_(std::move(purpose)), where_(std::move(where)), draw_(std::move(draw)) {}

 private:
  std::string purpose_, where_;
  Drawing draw_;
};

}  // namespace composer
