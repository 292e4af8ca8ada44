// How fast the files of a data set can be read.
#pragma once

#include <cstdint>
#include <filesystem>

namespace composer {

struct ReadSpeed {
  int64_t files = 0, bytes = 0;  ///< that were read, at most 256 MiB
  double disk = 0, cache = 0;    ///< bytes a second, of the first and of the second reading
  bool whole = false;            ///< these are all that there are
};

/// Reads a file, or files below a folder, twice, in order: the first time after asking the system
/// to forget them. UserError when there is nothing to read.
ReadSpeed measure_reading(const std::filesystem::path& data);

}  // namespace composer
