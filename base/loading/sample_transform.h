// A change of single images on the loader's threads, before they become a batch.
#pragma once

#include <cstdint>
#include <functional>

#include "base/loading/image_size.h"

namespace composer {

/// Pixels to be changed in place: bytes, rows from the top, channels interleaved, without gaps.
struct MutableImage {
  uint8_t* pixels = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 1 or 3
};

/// Where an image stands. Draws for it come from Random(seed, "a.purpose", epoch, sample).
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
  bool mirrored = false;  ///< left-right, by the set's own transforms
};

/// Called by several threads at once, each with an image of its own.
using SampleTransform = std::function<void(const MutableImage& image, const SampleKey& place)>;

}  // namespace composer
