// JSON of files that others wrote. Copies, comparisons and dump() of nlohmann's values call
// themselves for what lies within, as deep as a file says.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace composer {

/// Of a value, for messages: its first characters, or that it is an array or an object.
std::string shown_value(const nlohmann::json& value);
std::string shown_value(const nlohmann::ordered_json& value);

/// Json: nlohmann::json or ordered_json. Discarded where the text is no JSON, or more than 64
/// arrays and objects lie within each other: what is not may be copied, compared and written.
template <class Json>
Json parse_foreign(std::string_view text);

}  // namespace composer
