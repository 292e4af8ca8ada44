// How fast the files of a data set can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace composer {

struct ReadSpeed {
  int64_t files = 0, bytes = 0;  ///< that were read, at most 256 MiB
  double disk = 0, cache = 0;    ///< bytes a second, of the first and of the second reading
  bool in_memory = false;        ///< on a file system without a disk, as /dev/shm is
  int64_t size = 0;              ///< bytes of all files, as far as 5 seconds suffice to find them
  int64_t unreadable = 0;        ///< files
  std::string why_unreadable;    ///< the first of them, and the reason
};

/// Reads a file, or files below a folder and what its links lead to, twice: the first time after
/// asking the system to write and to forget them. UserError when there is nothing to read.
ReadSpeed measure_reading(const std::filesystem::path& data);

}  // namespace composer
