// Convolutions and linear layers with codes by AMX tiles or AVX-512's dot products. oneDNN's
// compute as fast, but LibTorch's operators around them take longer than a small layer.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "inference/packed_layer.h"

namespace composer {

enum class CodeInstructions { avx512_vnni, amx_int8 };

/// The best that the processor has and COMPOSER_TILES in the environment permits: without AMX, for
/// avx512_bf16; nothing, for none.
std::optional<CodeInstructions> code_instructions();

/// Whether tile_layer() takes such a layer: one group, no dilation, sums of less than 32 bits, and
/// without AMX images that need not be copied where they are one pixel.
bool tile_layer_takes(const LayerParts& parts, const LayerCodes& codes);

/// As packed(): the same codes but for sums that lie between two, and with any number of threads.
/// instructions: at most code_instructions().
std::unique_ptr<PackedLayer> tile_layer(const LayerParts& parts, const LayerCodes& codes,
                                        CodeInstructions instructions);

/// Weights of several layers side by side on huge pages: a pass reads all of a network's once,
/// which pages of 4 KiB make a third slower.
class WeightPages {
 public:
  /// From any thread; 64-byte aligned. A page goes when all that was on it has gone, but for the
  /// last one, of 4 MiB.
  std::shared_ptr<int8_t> take(size_t bytes);

  /// That of all networks.
  static WeightPages& instance();

 private:
  std::mutex mutex_;
  std::shared_ptr<c10::DataPtr> page_;
  int8_t* next_ = nullptr;
  size_t room_ = 0;  ///< from there on
};

}  // namespace composer
