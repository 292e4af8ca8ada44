// Numbers and metrics as people read them, on pages and in tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

/// `value` with `digits` significant digits and no trailing zeros: "0.9312", "12,480", "1.2e-05",
/// "3.4M" from a million on. "NaN", "Infinity" and "-Infinity" as in metrics.jsonl.
std::string figure(double value, int digits = 4);

/// All digits: "1,281,167".
std::string count_figure(int64_t count);

/// count_figure and the noun: "1 epoch", "90 epochs".
std::string counted(int64_t count, const std::string& noun);

/// `value` with `decimals` digits after the point: "0.500", "-1,204.25".
std::string decimal_figure(double value, int decimals);

/// `text` with commas in its whole numbers of five or more digits between spaces.
std::string with_counts(const std::string& text);

/// "93.1 %" of 0.931.
std::string percent_figure(double share);

/// "12 µs", "850 ms", "12.4 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string duration_figure(double seconds);

/// "372 MiB".
std::string bytes_figure(int64_t bytes);

/// A short label for an axis: "0.001", "250", "12k", "1.5M". `largest`: the axis's largest value,
/// which decides the letter of all its labels.
std::string tick_figure(double value, double largest = 0);

/// The same metric of the main evaluation set: "metrics/eval/Accuracy" for "metrics/v2/Accuracy".
std::string same_of_main(const std::string& metric);

/// "evaluation accuracy" of "metrics/eval/Accuracy", "evaluation accuracy on v2" of
/// "metrics/v2/Accuracy"; an unknown name stays as it is.
std::string metric_label(const std::string& metric);

/// The number of digits after the point, at most 6, that gives a value of this size four digits.
int decimals_for(double size);

/// "22.46 %" for a share; other values with `decimals` digits after the point.
std::string metric_figure(const std::string& metric, double value, int decimals);

/// `text` with spaces up to this many columns, before it (to_the_right) or behind it.
std::string padded(const std::string& text, int64_t columns, bool to_the_right);

/// `text` in at most this many columns; a text that is cut ends in "…".
std::string shortened(const std::string& text, int64_t columns);

/// The columns that the longest cell of each column of a table has.
std::vector<int64_t> column_widths(const std::vector<std::string>& headings,
                                   const std::vector<std::vector<std::string>>& rows);

/// The cells two spaces apart: the first `words` at the left of their columns, the others at the
/// right. Without spaces at the end.
std::string table_line(const std::vector<std::string>& cells, const std::vector<int64_t>& widths,
                       size_t words = 1);

}  // namespace composer
