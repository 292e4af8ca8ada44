// Whether samples can be decoded, every byte of them.
#pragma once

#include <cstdint>
#include <string>

#include "data/samples/source.h"

namespace composer {

/// What decoding a sample tells of it.
struct SampleFinding {
  std::string reason;    ///< why the sample is bad; empty when it is not
  std::string warnings;  ///< one a line
};

/// All of an image, upright. decoded: where the pixels may lie. warnings: as decode_image. Throws
/// RunError with the reason.
ImageView whole_pixels(const StoredImage& image, Image& decoded, std::string* warnings = nullptr);

/// Of a source whose samples are image files, decoded into `image` by their content. Throws
/// RemoteError where a store fails.
SampleFinding verify_file(const Source& files, int64_t index, Image& image);

/// Of any source. scratch, decoded: what the sample is read into. Throws RemoteError where a store
/// fails.
SampleFinding verify_sample(const Source& source, int64_t index, ReadScratch& scratch,
                            Image& decoded);

}  // namespace composer
