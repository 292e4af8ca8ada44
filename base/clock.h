// Wall time, for measuring and for people.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <string>

namespace composer {

/// Seconds of a clock that never goes back; only differences mean something.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// "1:02:03", or "2:03" below an hour.
inline std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(std::max(0.0, seconds)));
  const auto two_digits = [](int64_t value) {
    return std::string(value < 10 ? "0" : "").append(std::to_string(value));
  };
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  std::string text =
      hours > 0 ? std::to_string(hours) + ":" + two_digits(minutes) : std::to_string(minutes);
  return text + ":" + two_digits(whole % 60);
}

/// The local time of day: "2026-11-22 09:30:00".
inline std::string local_time_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  return text;
}

}  // namespace composer
