// Wall time: for measuring, and as text for people.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

namespace composer {

/// Seconds of a clock that never goes back; only differences mean something.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// "1:02:03", or "2:03" below an hour.
inline std::string clock_text(double seconds) {
  const long whole = std::lround(std::max(0.0, seconds)), minutes = whole / 60;
  char text[48];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", minutes / 60, minutes % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", minutes, whole % 60);
  return text;
}

/// The local time of day: "2026-11-22 09:30:00".
inline std::string local_time_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  return text;
}

}  // namespace composer
