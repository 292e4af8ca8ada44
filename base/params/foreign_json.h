// JSON of files that other programs wrote. Copies, comparisons and dump() of nlohmann's values are
// recursive, as deep as a file nests.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace composer {

/// A value for messages: its first 40 characters, "an array" or "an object".
std::string shown_value(const nlohmann::json& value);
std::string shown_value(const nlohmann::ordered_json& value);

/// Json: nlohmann::json or ordered_json. The result is discarded when the text is no JSON, or nests
/// deeper than 64 arrays and objects; any other result may be copied, compared and written.
template <class Json>
Json parse_foreign(std::string_view text);

}  // namespace composer
