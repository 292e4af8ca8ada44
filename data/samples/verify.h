// Checks that samples can be decoded, to the last byte.
#pragma once

#include <cstdint>
#include <string>

#include "data/samples/source.h"

namespace composer {

/// The result of decoding a sample.
struct SampleFinding {
  std::string reason;    ///< why the sample is bad; empty for a good one
  std::string warnings;  ///< one per line
};

/// The pixels of the whole upright image, in `decoded` where it has to be decoded. warnings: see
/// decode_image(). Throws RunError with the reason.
ImageView whole_pixels(const StoredImage& image, Image& decoded, std::string* warnings = nullptr);

/// Verifies a sample of a source of image files, which is decoded into `image` by its content.
/// Throws RemoteError if a store fails.
SampleFinding verify_file(const Source& files, int64_t index, Image& image);

/// Verifies a sample of any source. scratch, decoded: memory to read into. Throws RemoteError if
/// a store fails.
SampleFinding verify_sample(const Source& source, int64_t index, ReadScratch& scratch,
                            Image& decoded);

}  // namespace composer
