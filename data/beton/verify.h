// Checks that all fields of a .beton file's rows can be read.
#pragma once

#include <cstdint>

#include "data/beton/beton.h"
#include "data/samples/verify.h"

namespace composer {

/// Decodes the row's images and JSON and reads its arrays. scratch: memory for reading. The finding
/// names the fields. Throws RemoteError when a store fails.
SampleFinding verify_row(const BetonFile& file, int64_t row, ReadScratch& scratch);

}  // namespace composer
