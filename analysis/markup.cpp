#include "analysis/markup.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace composer {
namespace {

std::string opened(std::string_view name, const Attributes& attributes) {
  std::string text = "<" + std::string(name);
  for (const auto& [key, value] : attributes)
    text += " " + std::string(key) + "=\"" + escaped(value) + "\"";
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  return safe;
}

std::string script_safe(std::string json) {
  for (size_t place = 0; (place = json.find('<', place)) != std::string::npos; place += 6)
    json.replace(place, 1, "\\u003c");
  return json;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view inner) {
  return opened(name, attributes) + ">" + std::string(inner) + "</" + std::string(name) + ">";
}

std::string element(std::string_view name, const Attributes& attributes) {
  return opened(name, attributes) + "/>";
}

std::string data_element(std::string_view key, const std::string& value,
                         const nlohmann::ordered_json& json) {
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
  return element("script", {{"type", "application/json"}, {key, value}},
                 script_safe(json.dump(-1, ' ', /*ensure_ascii=*/false, replace)));
}

std::string length_text(double length) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", length == 0 ? 0.0 : length);
  std::string shorter(text);
  shorter.erase(shorter.find_last_not_of('0') + 1);
  if (shorter.ends_with('.')) shorter.pop_back();
  return shorter == "-0" ? "0" : shorter;
}

}  // namespace composer
