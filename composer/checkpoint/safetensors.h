// Files of named tensors in the safetensors format: 8 bytes with the length of a JSON header
// (little-endian), the header (name -> dtype, shape, offsets), the tensors' bytes one after
// another.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/files/checksum.h"

namespace at {
class Tensor;
}  // namespace at

namespace composer {

using TensorMap = std::map<std::string, at::Tensor>;

/// Writes `tensors`, from any device, row-major, to `path` (an AtomicFile) and flushes it to the
/// disk. The same tensors and metadata give the same bytes, whose checksum it returns. Throws
/// RunError when the file cannot be written.
Checksum write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                           const std::map<std::string, std::string>& metadata = {});

/// All tensors of the file, on the CPU, in their own memory. UserError names the file and its
/// problem; a damaged or hostile file does no harm.
TensorMap read_safetensors(const std::filesystem::path& path);

/// The strings in the header's __metadata__. Throws as read_safetensors; reads the header alone.
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path);

}  // namespace composer
