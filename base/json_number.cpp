#include "base/json_number.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace composer {

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

double number_of(const nlohmann::ordered_json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nan("");
}

}  // namespace composer
