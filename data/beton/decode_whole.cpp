#include "data/beton/decode_whole.h"

#include "base/error.h"
#include "data/jpeg/header.h"

namespace composer {
ImageView decode_whole(const BetonImage& image, Dct dct, JpegDecoder& decoder,
                       std::string* warnings) {
  if (!image.jpeg)
    return {image.bytes.data(), image.size.height, image.size.width, 3, image.size.width * 3};
  const ImageSize stored = read_jpeg_header(image.bytes).size;
  if (stored != image.size)
    throw RunError("the JPEG is " + size_text(stored) + ", the file says " + size_text(image.size));
  const JpegRequest request{{0, 0, stored.height, stored.width}, 1, dct};
  return decoder.decode(image.bytes, request, {}, nullptr, warnings).pixels;
}

}  // namespace composer
