// A transform of single images on the loader's threads, before they become a batch.
#pragma once

#include <cstdint>
#include <functional>

#include "base/loading/image_size.h"

namespace composer {

/// Pixels to change in place: bytes, rows from the top, channels interleaved, without gaps.
struct MutableImage {
  uint8_t* pixels = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 1 or 3
};

/// Identifies an image in a training. Its draws come from Random(seed, "a.purpose", epoch, sample).
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
  bool mirrored = false;  ///< true: the data set's own transforms have flipped it left-right
};

/// Called by several threads at once, each with its own image.
using SampleTransform = std::function<void(const MutableImage& image, const SampleKey& key)>;

}  // namespace composer
