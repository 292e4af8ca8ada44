// The time of day, for files that people read.
#pragma once

#include <ctime>
#include <string>

namespace composer {

/// Here and now: "2026-11-22 09:30:00".
inline std::string local_time_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  return text;
}

}  // namespace composer
