#include "analysis/figure_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

#include "base/number_text.h"
#include "base/terminal.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

constexpr double most_in_letters = 1e12;

std::string without_zeros(std::string text) {
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string with_commas(std::string text) {
  if (text.find_first_not_of("-.0123456789") != std::string::npos) return text;
  const size_t point = std::min(text.find('.'), text.size());
  const size_t begin = text.starts_with('-') ? 1 : 0;
  for (size_t place = point; place > begin + 3;) text.insert(place -= 3, ",");
  return text;
}

/// "1.2e-05".
std::string by_power(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", std::min(digits, 3), value);
  return text;
}

std::string significant(double value, int digits) {
  char text[40];
  const double size = std::abs(value);
  if (size != 0 && size < 1e-4) return by_power(value, digits);
  const int whole = size < 1 ? 0 : static_cast<int>(std::floor(std::log10(size))) + 1;
  const int leading =
      size > 0 && size < 1 ? static_cast<int>(-std::floor(std::log10(size))) - 1 : 0;
  std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - whole + leading), value);
  return without_zeros(text);
}

std::string scaled(double value, int digits, double unit, const char* letter) {
  return significant(value / unit, digits) + letter;
}

std::string two_units(int64_t large, const char* large_name, int64_t small, int small_width,
                      const char* small_name) {
  char text[64];
  std::snprintf(text, sizeof text, "%lld %s %0*lld %s", static_cast<long long>(large), large_name,
                small_width, static_cast<long long>(small), small_name);
  return text;
}

}  // namespace

std::string figure(double value, int digits) {
  if (!std::isfinite(value)) return number_text(value, 0);
  const double size = std::abs(value);
  if (size >= most_in_letters) return by_power(value, digits);
  if (size >= 1e9) return scaled(value, digits, 1e9, "G");
  if (size >= 1e6) return scaled(value, digits, 1e6, "M");
  return with_commas(significant(value, digits));
}

std::string count_figure(int64_t count) { return with_commas(std::to_string(count)); }

std::string counted(int64_t count, const std::string& noun) {
  return count_figure(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string decimal_figure(double value, int decimals) {
  return with_commas(number_text(value, decimals));
}

std::string with_counts(const std::string& text) {
  constexpr size_t least_digits = 5;
  std::string with;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ' ');) {
    const bool count =
        word.size() >= least_digits && word.find_first_not_of("0123456789") == std::string::npos;
    with += (with.empty() ? "" : " ") + (count ? with_commas(word) : word);
  }
  return with;
}

std::string percent_figure(double share) {
  if (!std::isfinite(share)) return number_text(share, 0);
  const double percent = share * 100;
  return number_text(percent, std::abs(percent) < 9.995 ? 2 : 1) + " %";
}

std::string duration_figure(double seconds) {
  if (!std::isfinite(seconds)) return number_text(seconds, 0);
  if (seconds > 0 && seconds < 0.0009995) return significant(seconds * 1e6, 3) + " µs";
  if (seconds < 0.9995) return significant(seconds * 1000, 3) + " ms";
  if (seconds < 99.95) return significant(seconds, 3) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return two_units(whole / 60, "min", whole % 60, 2, "s");
  if (whole < 86400) return two_units(whole / 3600, "h", whole % 3600 / 60, 2, "min");
  return two_units(whole / 86400, "d", whole % 86400 / 3600, 1, "h");
}

std::string bytes_figure(int64_t bytes) {
  static constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1023.5 && unit + 1 < std::size(names); ++unit) value /= 1024;
  return with_commas(significant(value, 3)) + " " + names[unit];
}

std::string tick_figure(double value, double largest) {
  if (value == 0) return "0";
  const double size = std::max(std::abs(value), std::abs(largest));
  if (size >= most_in_letters) return by_power(value, 3);
  if (size >= 1e9) return scaled(value, 4, 1e9, "G");
  if (size >= 1e6) return scaled(value, 4, 1e6, "M");
  if (size >= 1e4) return scaled(value, 4, 1e3, "k");
  return with_commas(significant(value, 4));
}

std::string same_of_main(const std::string& metric) {
  return "metrics/" + std::string(main_evaluation) + metric.substr(metric.rfind('/'));
}

std::string metric_label(const std::string& metric) {
  static const std::map<std::string, std::string> labels{
      {"loss/train", "training loss"},
      {"metrics/eval/CrossEntropy", "evaluation loss"},
      {"metrics/train/Accuracy", "training accuracy"},
      {"metrics/eval/Accuracy", "evaluation accuracy"},
      {"metrics/eval/mAP", "evaluation mAP"},
      {"metrics/eval/BinaryCrossEntropy", "evaluation loss"},
      {"metrics/train/MAE", "training mean error"},
      {"metrics/eval/MAE", "evaluation mean error"},
      {"metrics/eval/MSE", "evaluation mean squared error"},
      {"metrics/eval/R2", "evaluation R2"},
      {"metrics/eval/Top5Accuracy", "evaluation accuracy, top 5"}};
  const std::string set(evaluation_set(metric));
  const bool further = !set.empty() && set != main_evaluation;
  const auto found = labels.find(further ? same_of_main(metric) : metric);
  if (found == labels.end()) return metric;
  return found->second + (further ? " on " + set : "");
}

int decimals_for(double size) {
  if (!std::isfinite(size) || size <= 0) return 3;
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(size))), 0, 6);
}

std::string metric_figure(const std::string& metric, double value, int decimals) {
  constexpr double too_many_digits = 1e7;
  if (!std::isfinite(value) || std::abs(value) >= too_many_digits) return figure(value);
  return is_share(metric) ? decimal_figure(value * 100, 2) + " %" : decimal_figure(value, decimals);
}

std::string padded(const std::string& text, int64_t columns, bool to_the_right) {
  const auto room = std::max<int64_t>(columns - columns_of(text), 0);
  const std::string space(static_cast<size_t>(room), ' ');
  return to_the_right ? space + text : text + space;
}

std::string shortened(const std::string& text, int64_t columns) {
  return columns_of(text) <= columns ? text : first_columns(text, columns - 1) + "…";
}

std::vector<int64_t> column_widths(const std::vector<std::string>& headings,
                                   const std::vector<std::vector<std::string>>& rows) {
  std::vector<int64_t> widths;
  for (size_t i = 0; i < headings.size(); ++i) {
    widths.push_back(columns_of(headings[i]));
    for (const auto& row : rows) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  return widths;
}

std::string table_line(const std::vector<std::string>& cells, const std::vector<int64_t>& widths,
                       size_t words) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i)
    line += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], i >= words);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace composer
