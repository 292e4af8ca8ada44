// libjpeg-turbo's decoder as data/jpeg/decoder.cpp uses it: a region by its own means, or from
// coefficients that somebody else decodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"

namespace composer {

/// A region of an image at 1/scale, in its pixels.
struct JpegRegion {
  ImageSize whole;
  Box wanted;
  /// More, so that the wanted pixels get what they get in the whole image: upsampling looks at
  /// neighbours, and treats images narrower than five pixels differently.
  Box around;

  /// size: of the image at full size. Throws RunError when the request's region is not inside.
  JpegRegion(ImageSize size, const JpegRequest& request);
};

/// Gives coefficients to libjpeg in place of its own Huffman decoder.
class JpegCoefficients {
 public:
  virtual ~JpegCoefficients() = default;

  /// The blocks of the next row of MCUs, MCU after MCU: 64 coefficients in natural order, not
  /// dequantised. The caller zeroes them behind itself. nullptr: there are none.
  virtual int16_t* next_row() noexcept = 0;
};

/// A JPEG header without codes, for coefficients to be decoded to rows of pixels.
struct JpegFeed {
  std::span<const uint8_t> header;
  int64_t mcus_across = 0;
  int blocks = 0;  ///< an MCU
  JpegCoefficients* coefficients = nullptr;
};

/// Whether the coefficients can be given to this version of libjpeg, as far as its headers tell.
bool jpeg_feed_possible();

/// The first rows of the image that the header describes, at 1/scale. False when libjpeg or the
/// coefficients fail.
bool decode_jpeg_feed(const JpegFeed& feed, int scale, Dct dct, int64_t rows, Image& pixels,
                      std::string* warnings);

/// The region by libjpeg's own means; without a request the whole image. All codes are read,
/// wherever the region lies. warnings and errors: as decode_jpeg of the whole image.
ImagePart decode_jpeg_region(std::span<const uint8_t> bytes, const JpegRequest* request,
                             Image& pixels, std::string* warnings);

}  // namespace composer
