// Decodes a region of a JPEG stream, at full size or at a fraction of it. With an index of the
// stream the decoder seeks to the region; without one it walks there, and can record the index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/pixels/image.h"

namespace composer {

enum class Dct {
  accurate,  ///< libjpeg's islow
  fast,      ///< libjpeg's ifast, which FFCV uses
};

struct JpegRequest {
  Box region;     ///< in pixels of the whole image at full size; must lie inside
  int scale = 1;  ///< 1, 2, 4 or 8: decode at 1/scale of the size (the DCT's lower frequencies)
  Dct dct = Dct::accurate;
};

/// A part of an image, possibly at a fraction of its size.
struct ImagePart {
  ImageView pixels;  ///< the part `box`, RGB
  Box box;           ///< in pixels of the image at 1/scale; covers the region
  ImageSize whole;   ///< size of the image at 1/scale
};

/// A stream's coefficients in a cache, from which pixels are decoded without its Huffman codes.
struct JpegKept {
  std::span<const uint8_t> table;  ///< an earlier `made_table`; empty: nothing is cached
  /// Reads bytes of the earlier `made_rows` at an offset. False on an error.
  std::function<bool(uint64_t at, std::span<uint8_t> to)> read;
  bool wanted = false;  ///< make the coefficients when the cached ones are missing or unusable

  bool made = false;  ///< the last decode() made the coefficients
  std::vector<uint8_t> made_table;
  std::span<const uint8_t> made_rows;  ///< valid until the next decode()
  std::vector<uint8_t> memory;         ///< memory of made_rows
};

/// Decodes on one thread, and keeps its memory from image to image.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  /// The region's pixels, equal to those of the whole image decoded at this scale; at scale 1 `box`
  /// is the region. Valid until the next call.
  /// index: the index recorded for these bytes, or empty. A wrong index may give wrong pixels or an
  /// error, never a crash.
  /// recorded: if not null, and `index` is empty or of another stream, gets the stream's index;
  /// empty for a stream that cannot be indexed.
  /// warnings: as decode_jpeg. Throws RunError with the reason for every stream that decode_jpeg
  /// refuses, whatever the region: without an index all codes are read, and only a stream with
  /// whole codes has an index.
  /// kept: cached coefficients to decode from; gets those of the whole image when they are wanted
  /// and possible. Coefficients that are damaged or of another stream are not used.
  ImagePart decode(std::span<const uint8_t> bytes, const JpegRequest& request,
                   std::span<const uint8_t> index = {}, std::vector<uint8_t>* recorded = nullptr,
                   std::string* warnings = nullptr, JpegKept* kept = nullptr);

  /// Whether the last decode() wrote the stream's index to `recorded`.
  bool has_recorded() const;

  /// Bytes of memory for pixels.
  size_t room() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The index of a stream: for each row of MCUs the position of its first code and the predictors of
/// its DC coefficients, 8 bytes a row. Empty when the stream cannot be indexed: it is damaged, or
/// not one scan of 8-bit baseline Huffman codes without restart intervals.
std::vector<uint8_t> make_jpeg_index(std::span<const uint8_t> bytes);

/// Whether an index belongs to this stream, as far as its length and header tell.
bool jpeg_index_fits(std::span<const uint8_t> bytes, std::span<const uint8_t> index);

/// Whether this libjpeg accepts coefficients from the decoder; tested once on a small image.
/// Otherwise libjpeg alone decodes regions, with the same pixels.
bool jpeg_index_works();

}  // namespace composer
