// Pictures among the values of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace composer {

struct LoggedImage {
  int64_t height = 0, width = 0;
  int64_t channels = 3;         ///< 3: RGB; 1: gray
  std::vector<uint8_t> pixels;  ///< [height, width, channels]
  std::string caption;          ///< may be empty
};

/// What Logger::log_images was given at one place of the run.
struct ImageRecord {
  std::string name;
  Timestamp time;  ///< of the record that they were logged with
  std::vector<LoggedImage> images;
};

}  // namespace composer
