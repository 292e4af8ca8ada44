// Convolutions and linear layers of 8-bit codes by AMX tiles or AVX-512's dot products (VNNI).
// oneDNN computes as fast, but LibTorch's operators around it take longer than a small layer.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "inference/packed_layer.h"

namespace composer {

enum class Int8Instructions { avx512_vnni, amx_int8 };

/// The best instructions that the processor has and the environment variable COMPOSER_TILES
/// permits: avx512_bf16 forbids AMX, none forbids both.
std::optional<Int8Instructions> int8_instructions();

/// Whether int8_layer() supports the layer: one group, no dilation, sums that fit in 32 bits, and
/// without AMX no images of one pixel that would have to be copied.
bool int8_layer_takes(const LayerParts& parts, const LayerCodes& codes);

/// A layer as packed() makes it. Its codes are oneDNN's except for sums that lie half-way between
/// two codes, and do not depend on the number of threads. instructions: no better than
/// int8_instructions().
std::unique_ptr<PackedLayer> int8_layer(const LayerParts& parts, const LayerCodes& codes,
                                        Int8Instructions instructions);

/// Allocates the packed weights of several layers side by side on huge pages. With pages of 4 KiB a
/// pass, which reads all weights once, takes a third longer.
class WeightPages {
 public:
  /// Memory aligned to 64 bytes; thread-safe. A page is freed with the last memory on it, except
  /// for the page of 4 MiB that is being filled.
  std::shared_ptr<int8_t> take(size_t bytes);

  /// The instance that all networks share.
  static WeightPages& instance();

 private:
  std::mutex mutex_;
  std::shared_ptr<c10::DataPtr> page_;
  int8_t* next_ = nullptr;
  size_t room_ = 0;  ///< free bytes from next_ on
};

}  // namespace composer
