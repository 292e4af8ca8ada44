// Pixels of the images in .beton files.
#pragma once

#include <string>

#include "data/beton/beton.h"
#include "data/jpeg/decoder.h"

namespace composer {

/// The whole image, RGB; with Dct::fast byte for byte what FFCV decodes. Valid until the decoder's
/// next call and as long as the file is open. Throws RunError with the reason, also when the stored
/// stream has another size than the file says. warnings: as decode_jpeg.
ImageView decode_whole(const BetonImage& image, Dct dct, JpegDecoder& decoder,
                       std::string* warnings = nullptr);

}  // namespace composer
