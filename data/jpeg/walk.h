// Walks along the Huffman codes of a JPEG scan, MCU by MCU, and skips or decodes coefficients.
#pragma once

#include <array>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace composer {

/// The blocks of an MCU, in the order of the stream, and their tables.
struct McuLayout {
  struct Block {
    const HuffmanTable* dc;
    const HuffmanTable* ac;
    uint8_t component;
  };
  int blocks = 0;
  std::array<Block, 10> block;
};

/// Modulo 2^32: damaged streams can add up to anything.
using DcPredictors = std::array<uint32_t, 3>;

/// A position in a stream of bits without stuffing. Up to kOvershoot bytes behind the stream may be
/// read; their values do not matter.
class JpegWalker {
 public:
  static constexpr size_t kOvershoot = 8192;

  void start(const uint8_t* bytes, size_t size, int first_bit, const DcPredictors& predictors);

  /// The next bit, counted from the start of the bytes.
  uint64_t position() const {
    return static_cast<uint64_t>(next_ - start_) * 8 - static_cast<uint64_t>(count_);
  }
  const DcPredictors& predictors() const { return predictors_; }
  /// Whether all codes so far were valid and inside the stream.
  bool good() const { return !bad_ && position() <= size_ * 8; }

  /// Skips MCUs; ends early when good() becomes false.
  void skip(const McuLayout& layout, int64_t mcus);
  /// Decodes MCUs; ends early like skip(). blocks: zeros; gets the coefficients, 64 a block in
  /// natural order, not dequantised.
  void decode(const McuLayout& layout, int64_t mcus, int16_t* blocks);

  /// Two walkers at a time: faster than one after the other, since each code waits for its
  /// predecessor.
  static void skip(const McuLayout& layout, int64_t mcus, JpegWalker& a, JpegWalker& b);
  static void decode(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* blocks_a,
                     JpegWalker& b, int16_t* blocks_b);

 private:
  friend struct Walk;

  uint64_t bits_ = 0;  ///< the next bits, from the top
  int64_t count_ = 0;  ///< the number of valid bits in bits_
  const uint8_t* next_ = nullptr;
  const uint8_t* start_ = nullptr;
  size_t size_ = 0;
  DcPredictors predictors_{};
  bool bad_ = false;
};

}  // namespace composer
