// Measures how fast the files of a data set can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace composer {

struct ReadSpeed {
  int64_t files = 0, bytes = 0;  ///< files and bytes that were read, at most 256 MiB
  double disk = 0, cache = 0;    ///< bytes per second of the first and the second reading
  bool in_memory = false;        ///< true for a file system without a disk, such as /dev/shm
  int64_t size = 0;              ///< bytes of all files that were found within 5 seconds
  int64_t unreadable = 0;        ///< files
  std::string why_unreadable;    ///< the first unreadable file and the reason
};

/// Reads a file, or the files below a folder (links are followed), twice; before the first time it
/// asks the system to drop them from the page cache. UserError when there is nothing to read.
ReadSpeed measure_reading(const std::filesystem::path& data);

}  // namespace composer
