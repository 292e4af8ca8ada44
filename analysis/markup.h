// HTML and SVG as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace composer {

/// Text that reads as itself in elements and in attributes.
std::string escaped(std::string_view text);

/// JSON that may stand inside a <script> element: no "</script>" of a name ends it.
std::string script_safe(std::string json);

using Attributes = std::vector<std::pair<std::string_view, std::string>>;

/// <name a="b">inner</name>. The values of attributes are escaped here, `inner` is markup.
std::string element(std::string_view name, const Attributes& attributes, std::string_view inner);
/// <name a="b"/>
std::string element(std::string_view name, const Attributes& attributes);

/// A <script> that holds the JSON, for scripts and other programs. What is not UTF-8 in it is
/// replaced.
std::string data_element(std::string_view key, const std::string& value,
                         const nlohmann::ordered_json& json);

/// A length of a drawing, to a hundredth.
std::string length_text(double length);

}  // namespace composer
