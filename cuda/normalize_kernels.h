// Normalises the bytes of images. The product and the sum are rounded one after the other as on the
// CPU, so compile without fused multiply-adds.
#pragma once

#include <cstdint>

#include "cuda/grid.h"
#include "cuda/normalize_launch.h"

namespace composer::cuda {

/// byte * scale + shift, per channel.
template <int channels>
struct NormalizeLines {
  float scale[channels], shift[channels];

  COMPOSER_ANYWHERE float at(uint8_t byte, int channel) const {
    return static_cast<float>(byte) * scale[channel] + shift[channel];
  }
  /// The factors rotated to begin with the channel `first`. No array is indexed by a variable,
  /// which would move it from registers to memory.
  COMPOSER_ANYWHERE NormalizeLines from(int first) const {
    NormalizeLines turned = *this;
    for (int by = 1; by < channels; ++by)
      for (int c = 0; c < channels; ++c) {
        const int source = (c + by) % channels;
        turned.scale[c] = first == by ? scale[source] : turned.scale[c];
        turned.shift[c] = first == by ? shift[source] : turned.shift[c];
      }
    return turned;
  }
};

COMPOSER_ANYWHERE int64_t thread_of(const Place& place) {
  return static_cast<int64_t>(place.block_x) * place.lanes_x + place.lane_x;
}

/// Normalises `count` interleaved numbers, values_at_once per thread.
template <class T, int channels>
struct NormalizeInterleavedKernel {
  static constexpr int phases = 1;
  int64_t count;
  NormalizeLines<channels> lines;
  const uint8_t* images;
  T* output;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    const int64_t first = thread_of(place) * values_at_once;
    if (first >= count) return;
    const auto own = lines.from(static_cast<int>(first % channels));
    if (first + values_at_once <= count) {
      const auto bytes = load_values(images + first);
      Values<T> results;
      for (int i = 0; i < values_at_once; ++i)
        results.values[i] = static_cast<T>(own.at(bytes.values[i], i % channels));
      store_values(output + first, results);
    } else {
      for (int i = 0; i < values_at_once; ++i)
        if (first + i < count)
          output[first + i] = static_cast<T>(own.at(images[first + i], i % channels));
    }
  }
};

/// [samples, pixels, channels] -> [samples, channels, pixels]. One pixel per thread.
template <class T, int channels>
struct NormalizePlanarKernel {
  static constexpr int phases = 1;
  int64_t samples, pixels;
  NormalizeLines<channels> lines;
  const uint8_t* images;
  T* output;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    const int64_t pixel = thread_of(place);
    if (pixel >= samples * pixels) return;
    const int64_t sample = pixel / pixels, rest = pixel % pixels;
    for (int c = 0; c < channels; ++c)
      output[(sample * channels + c) * pixels + rest] =
          static_cast<T>(lines.at(images[pixel * channels + c], c));
  }
};

inline Grid normalize_grid(int64_t threads) {
  constexpr int lanes = 256;
  return {static_cast<int>((threads + lanes - 1) / lanes), 1, lanes, 1, 0};
}

template <class T, int channels, class Run>
void normalize_pass_of(const NormalizeArguments& given, Run& run) {
  NormalizeLines<channels> lines;
  for (int c = 0; c < channels; ++c)
    lines.scale[c] = given.scale[c], lines.shift[c] = given.shift[c];
  auto* const output = static_cast<T*>(given.output);
  const int64_t pixels = given.samples * given.pixels, count = pixels * channels;
  if (given.planar)
    run(normalize_grid(pixels), NormalizePlanarKernel<T, channels>{given.samples, given.pixels,
                                                                   lines, given.images, output});
  else
    run(normalize_grid((count + values_at_once - 1) / values_at_once),
        NormalizeInterleavedKernel<T, channels>{count, lines, given.images, output});
}

/// Runs the kernel for the arguments by run(grid, kernel).
template <class T, class Run>
void normalize_pass(const NormalizeArguments& given, Run& run) {
  if (given.channels == 1)
    normalize_pass_of<T, 1>(given, run);
  else
    normalize_pass_of<T, 3>(given, run);
}

}  // namespace composer::cuda
