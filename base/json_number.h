// Numbers in JSON that other programs read.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace composer {

/// The number; not finite, the text "NaN", "Infinity" or "-Infinity", as JSON has no such numbers.
nlohmann::ordered_json json_number(double value);

/// The inverse of json_number(); NaN for any other JSON.
double number_of(const nlohmann::ordered_json& json);

}  // namespace composer
