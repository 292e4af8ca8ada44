// Whether all fields of a .beton file's rows can be read.
#pragma once

#include <cstdint>

#include "data/beton/beton.h"
#include "data/samples/verify.h"

namespace composer {

/// Decodes the row's images and JSON and reads its arrays. scratch: what they are read into. The
/// finding names the fields. Throws RemoteError where a store fails.
SampleFinding verify_row(const BetonFile& file, int64_t row, ReadScratch& scratch);

}  // namespace composer
