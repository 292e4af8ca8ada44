#include "algorithms/alternating_flip.h"

#include "base/random.h"

namespace composer {

bool alternating_flip(const SampleKey& key) {
  const auto first = Random(key.seed, "alternating_flip.first", 0, key.sample).bits() % 2;
  return key.epoch % 2 == first;
}

void mirror(const MutableImage& image) {
  const auto [pixels, height, width, channels] = image;
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* left = pixels + y * width * channels;
    uint8_t* right = left + (width - 1) * channels;
    for (; left < right; left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

Compatibility AlternatingFlip::compatibility() {
  return {.needs = {{"train_dataset.*.order",
                     {"auto", "random", "quasi_random"},
                     "only a set whose epochs have each image once knows an image's turn"}}};
}

SampleTransform AlternatingFlip::sample_transform(const State&) {
  return [](const MutableImage& image, const SampleKey& key) {
    if (alternating_flip(key) != key.mirrored) mirror(image);
  };
}

}  // namespace composer
