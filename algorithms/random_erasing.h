// random_erasing: hides a random rectangle of some images, so that the network learns to look at
// all of an object (Zhong et al. 2017, arXiv:1708.04896; the law of the rectangles is timm's).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/whole_batch.h"
#include "base/params/params.h"
#include "composer/loop/loader.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// The values of erased pixels, in units of normalised images.
enum class Eraser {
  zero,     ///< the mean colour
  channel,  ///< a normally distributed number per channel of a rectangle
  pixel,    ///< a normally distributed number per value
};

/// A rectangle of one image of a batch.
struct Erasure {
  int64_t sample = 0;
  Box box;
  uint64_t key = 0;  ///< the noise depends on the key, the pixel in the box and the channel
};

/// The distribution of the sizes and shapes of rectangles.
struct ErasureLaw {
  double min_area = 0.02,
         max_area = 1.0 / 3;  ///< area of all rectangles of an image, as a share of the image
  double min_aspect = 0.3;    ///< height / width is in [min_aspect, 1 / min_aspect]
  int64_t max_count = 1;      ///< an image has 1 to max_count rectangles
};

/// Random rectangles for the image with index `sample`. A rectangle is left out if ten tries find
/// none that is smaller than the image on both sides.
std::vector<Erasure> draw_erasures(const ErasureLaw& law, ImageSize image, int64_t sample,
                                   Random& random);

/// Erases in place. images: float32 [N, C, H, W] on the CPU, normalised. No two erasures may
/// have the same sample.
void erase(const at::Tensor& images, const std::vector<Erasure>& erasures, Eraser eraser);

/// The same on any device: all erasures at once, at the cost of the erased pixels only, and without
/// waiting for the device.
void erase_batched(const at::Tensor& images, const std::vector<Erasure>& erasures, Eraser eraser);

/// Erases in place. normalization: mean and standard deviation of the channels.
void erase(const MutableImage& image, const Erasure& erasure, Eraser eraser,
           const Normalization& normalization);

/// Normally distributed number `counter` of `key` (SplitMix64, Steele et al. 2014; Box and Muller
/// 1958). erase() uses counter = (row * width + column) * C + channel of the box for Eraser::pixel,
/// and counter = channel for Eraser::channel.
float erasure_noise(uint64_t key, uint64_t counter);

class RandomErasing : public UnrestrictedAlgorithm {
 public:
  struct Params {
    ErasureLaw law{};
    double probability = 0.25;
    std::string mode = "const";
    std::string where = "device";

    void fields(auto&& f) {
      f("probability", probability, "how often an image is changed", in(0.0, 1.0));
      f("min_area", law.min_area, "least part of the image that is hidden", in(0.0, 1.0));
      f("max_area", law.max_area, "largest part of the image that is hidden", in(0.0, 1.0));
      f("min_aspect", law.min_aspect, "the rectangles' height : width is from this to its inverse",
        in(0.001, 1.0));
      f("max_count", law.max_count, "an image has 1 to so many rectangles, which share the area",
        in(1, 100));
      f("mode", mode,
        "const: the mean colour; channel: one random colour a rectangle; pixel: noise",
        one_of("const", "channel", "pixel"));
      f("where", where,
        "device: the normalised batch; loader: single images of bytes, on the loader's threads",
        one_of("device", "loader"));
    }
    std::string check() const {
      if (law.min_area > law.max_area) return "min_area: must be at most max_area\n";
      return law.min_area < 1 ? "" : "min_area: must be below 1: no rectangle would fit\n";
    }
  };

  explicit RandomErasing(Params params);
  static Compatibility compatibility();

  bool listens(Event event) const override {
    return event != Event::after_dataloader || params_.where == "device";
  }
  void after_dataloader(State& state) override;
  SampleTransform sample_transform(const State& state) override;

 private:
  Params params_;
  Eraser eraser_;
};

}  // namespace composer
