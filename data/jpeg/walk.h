// Walks along the Huffman codes of a JPEG scan, MCU by MCU: over them, or keeping coefficients.
#pragma once

#include <array>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace composer {

/// The blocks of an MCU, in the order of the stream, and the tables they are coded with.
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

/// A place in a stream of bits without stuffing. Behind the stream kOvershoot bytes may be read,
/// whatever they are.
class JpegWalker {
 public:
  static constexpr size_t kOvershoot = 8192;

  void start(const uint8_t* bytes, size_t size, int first_bit, const DcPredictors& predictors);

  /// The bit that comes next, counted from the start of the bytes.
  uint64_t position() const {
    return static_cast<uint64_t>(next_ - start_) * 8 - static_cast<uint64_t>(count_);
  }
  const DcPredictors& predictors() const { return predictors_; }
  /// Whether all codes so far existed and lay inside the stream.
  bool good() const { return !bad_ && position() <= size_ * 8; }

  /// Moves on by some MCUs; ends early when they are not good().
  void skip(const McuLayout& layout, int64_t mcus);
  /// As skip(). blocks: zeros; gets the coefficients, 64 a block in natural order, not dequantised.
  void decode(const McuLayout& layout, int64_t mcus, int16_t* blocks);

  /// Both at once, which is faster than one after the other: each code must wait for its
  /// predecessor.
  static void skip(const McuLayout& layout, int64_t mcus, JpegWalker& a, JpegWalker& b);
  static void decode(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* blocks_a,
                     JpegWalker& b, int16_t* blocks_b);

 private:
  friend struct Walk;

  uint64_t bits_ = 0;  ///< the next ones, from the top
  int64_t count_ = 0;  ///< how many of them count
  const uint8_t* next_ = nullptr;
  const uint8_t* start_ = nullptr;
  size_t size_ = 0;
  DcPredictors predictors_{};
  bool bad_ = false;
};

}  // namespace composer
