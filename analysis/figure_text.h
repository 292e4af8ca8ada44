// Numbers as people read them, on pages and in tables.
#pragma once

#include <cstdint>
#include <string>

namespace composer {

/// So many significant digits, no trailing zeros: "0.9312", "12,480", "1.2e-05", "3.4M" from a
/// million on. "NaN", "Infinity" and "-Infinity" as in metrics.jsonl.
std::string figure(double value, int digits = 4);

/// "93.1 %" of 0.931.
std::string percent_figure(double share);

/// "850 ms", "12.4 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string duration_figure(double seconds);

/// "372 MiB".
std::string bytes_figure(int64_t bytes);

/// For axes, which have little room: "0.001", "250", "12k", "1.5M".
std::string tick_figure(double value);

}  // namespace composer
