// libjpeg-turbo's decoder for data/jpeg/decoder.cpp: it decodes a region itself, or from
// coefficients that our own code decodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"

namespace composer {

/// A region of an image at 1/scale, in pixels of the scaled image.
struct JpegRegion {
  ImageSize whole;
  Box wanted;
  /// A larger box that gives the wanted pixels the same values as in the whole image: upsampling
  /// reads neighbours, and treats images narrower than five pixels differently.
  Box around;

  /// size: the image at full size. Throws RunError when the request's region is not inside.
  JpegRegion(ImageSize size, const JpegRequest& request);
};

/// A source of coefficients that replaces libjpeg's Huffman decoder.
class JpegCoefficients {
 public:
  virtual ~JpegCoefficients() = default;

  /// The blocks of the next row of MCUs, MCU after MCU: 64 coefficients in natural order, not
  /// dequantised. The caller zeroes them after use. nullptr on an error.
  virtual int16_t* next_row() noexcept = 0;
};

/// A JPEG header without codes, and the coefficients that are decoded to rows of pixels.
struct JpegFeed {
  std::span<const uint8_t> header;
  int64_t mcus_across = 0;
  int blocks = 0;  ///< blocks of an MCU
  JpegCoefficients* coefficients = nullptr;
};

/// Whether this version of libjpeg accepts coefficients, as far as its headers tell.
bool jpeg_feed_possible();

/// Decodes the first rows of the image that the header describes, at 1/scale. False when libjpeg or
/// the coefficients fail.
bool decode_jpeg_feed(const JpegFeed& feed, int scale, Dct dct, int64_t rows, Image& pixels,
                      std::string* warnings);

/// Decodes the region with libjpeg alone; without a request the whole image. All codes are read,
/// wherever the region lies. Warnings and errors are those of decode_jpeg for the whole image.
ImagePart decode_jpeg_region(std::span<const uint8_t> bytes, const JpegRequest* request,
                             Image& pixels, std::string* warnings);

}  // namespace composer
