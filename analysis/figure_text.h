// Numbers as people read them, on pages and in tables.
#pragma once

#include <cstdint>
#include <string>

namespace composer {

/// So many significant digits, no trailing zeros: "0.9312", "12,480", "1.2e-05", "3.4M" from a
/// million on. "NaN", "Infinity" and "-Infinity" as in metrics.jsonl.
std::string figure(double value, int digits = 4);

/// All digits: "1,281,167".
std::string count_figure(int64_t count);

/// count_figure and the noun: "1 epoch", "90 epochs".
std::string counted(int64_t count, const std::string& noun);

/// So many digits after the point: "0.500", "-1,204.25".
std::string decimal_figure(double value, int decimals);

/// Text with commas in the numbers of five digits and more that stand between spaces.
std::string with_counts(const std::string& text);

/// "93.1 %" of 0.931.
std::string percent_figure(double share);

/// "12 µs", "850 ms", "12.4 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string duration_figure(double seconds);

/// "372 MiB".
std::string bytes_figure(int64_t bytes);

/// For axes, which have little room: "0.001", "250", "12k", "1.5M". largest: on the same axis,
/// whose letter all of them have.
std::string tick_figure(double value, double largest = 0);

}  // namespace composer
