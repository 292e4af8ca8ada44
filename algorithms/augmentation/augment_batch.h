// Random changes per image, on whole batches or on the loader's threads: the base of randaugment,
// trivialaugment, autoaugment and augmix. On a GPU only Torch operators are used, without a loop
// over images or a wait for the device.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/augmentation/image_op.h"
#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/loading/image_size.h"
#include "base/random.h"
#include "composer/loop/state.h"

namespace composer {

/// The help text of the hyperparameter `where`.
inline constexpr const char* where_doc =
    "device: whole batches before they are normalised; loader: single images on its threads";

/// Changes image i as draw(i) says; returns new images. images: uint8 [N, H, W, C] on any device, C
/// is 1 or 3. draw is called by several threads at once, for every i in [0, N).
at::Tensor augment_batch(const at::Tensor& images, const std::function<Steps(int64_t)>& draw);
at::Tensor augment_batch(const at::Tensor& images, const std::function<AugMixDraw(int64_t)>& draw);

/// An algorithm that applies a random draw to each training image. Draw: Steps or AugMixDraw.
template <class Draw>
class DrawnPerImage : public UnrestrictedAlgorithm {
 public:
  SampleTransform sample_transform(const State&) override {
    if (where_ != "loader") return {};
    return [purpose = purpose_, draw = draw_](const MutableImage& image, const SampleKey& key) {
      Random random(key.seed, purpose, key.epoch, key.sample);
      apply_draw(draw(random, {image.height, image.width}), image);
    };
  }

  bool listens(Event event) const override { return event != Event::augment || where_ == "device"; }

  /// Draws depend on the batch and on the image's index in the batch of all ranks.
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

/// Applies the operation of image_op.h to a batch; returns new images. images: uint8 [n, H, W, C],
/// C is 1 or 3. magnitudes: float32 [n] on the same device, as in ImageStep. The pixels are within
/// one grey level of torchvision 0.26's autoaugment._apply_op on uint8 tensors.
at::Tensor apply(ImageOp op, const at::Tensor& images, const at::Tensor& magnitudes,
                 Interpolation interpolation = Interpolation::nearest);

/// Applies steps[i] to image i. At each step the images with the same op are gathered, changed
/// together and put back.
at::Tensor apply_batched(const at::Tensor& images, const std::vector<Steps>& steps);

/// Applies draws[i] to image i; see AugMixDraw.
at::Tensor apply_batched(const at::Tensor& images, const std::vector<AugMixDraw>& draws);

}  // namespace composer
