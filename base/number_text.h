// Numbers on the terminal.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace composer {

/// `digits`: after the point. "NaN", "Infinity" and "-Infinity" as in metrics.jsonl.
inline std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Four columns: " 37%"; rounded down.
inline std::string percent_text(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%3d%%", static_cast<int>(share * 100 + 1e-6));
  return text;
}

}  // namespace composer
