// Decodes no more of a JPEG stream than is wanted: a region, at full size or at a fraction of it.
// With an index of the stream the decoder goes straight to the region; without one it can make it
// on its way.
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
  fast,      ///< libjpeg's ifast: what FFCV decodes with
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

/// The coefficients of a stream that are kept outside of it, from which pixels are made without its
/// Huffman codes.
struct JpegKept {
  std::span<const uint8_t> table;  ///< what `made_table` was; empty: nothing is kept
  /// Reads what `made_rows` had at a place. False when it cannot.
  std::function<bool(uint64_t at, std::span<uint8_t> to)> read;
  bool wanted = false;  ///< make them where nothing that is kept is of use

  bool made = false;  ///< by the last decode()
  std::vector<uint8_t> made_table;
  std::span<const uint8_t> made_rows;  ///< valid until the next decode()
  std::vector<uint8_t> memory;         ///< of the rows
};

/// One thread's; keeps its memory from image to image.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  /// The region's pixels, equal byte for byte to those of decoding the whole image (at this scale);
  /// at scale 1 `box` is the region. Valid until the next call.
  /// index: what was recorded for these very bytes, or empty. A wrong one may give wrong pixels or
  /// an error, never a crash.
  /// recorded: if there is one and `index` is empty or not of this stream, gets the stream's index,
  /// empty for a stream that cannot be indexed.
  /// warnings: as decode_jpeg. Throws RunError with the reason, for the streams that decode_jpeg
  /// refuses, whatever the region: without an index all codes are read, and only a stream whose
  /// codes are whole has one.
  /// kept: coefficients that may be there, and comes to those of the whole image where they are
  /// wanted and can be had. Those that are another stream's, or damaged, are not used.
  ImagePart decode(std::span<const uint8_t> bytes, const JpegRequest& request,
                   std::span<const uint8_t> index = {}, std::vector<uint8_t>* recorded = nullptr,
                   std::string* warnings = nullptr, JpegKept* kept = nullptr);

  /// Whether the last decode() found out the stream's index, and put it into `recorded`.
  bool has_recorded() const;

  /// Bytes of the pixels that it has room for.
  size_t room() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The index of a stream: for each row of MCUs where its first code begins and the predictors of
/// its DC coefficients; about 8 bytes a row. Empty when the stream cannot be indexed: anything but
/// one scan of 8-bit baseline Huffman codes without restart intervals, or damaged data.
std::vector<uint8_t> make_jpeg_index(std::span<const uint8_t> bytes);

/// Whether an index is one of this stream, as far as its length and numbers tell.
bool jpeg_index_fits(std::span<const uint8_t> bytes, std::span<const uint8_t> index);

/// Whether this libjpeg lets the decoder feed it coefficients: proven once on a small image.
/// Without it regions are decoded by libjpeg's own means, with the same pixels.
bool jpeg_index_works();

}  // namespace composer
