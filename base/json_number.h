// Numbers in the files and lines that a program leaves for others.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace composer {

/// The number; JSON has none for "NaN", "Infinity" and "-Infinity", which stand as these words.
nlohmann::ordered_json json_number(double value);

/// What json_number made, back; NaN for anything else.
double number_of(const nlohmann::ordered_json& json);

}  // namespace composer
