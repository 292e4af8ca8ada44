#include "analysis/figure_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "base/number_text.h"

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
  char text[40];
  std::snprintf(text, sizeof text, "%.*f %%", std::abs(percent) < 9.995 ? 2 : 1, percent);
  return text;
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

}  // namespace composer
