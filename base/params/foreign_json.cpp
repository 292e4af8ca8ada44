#include "base/params/foreign_json.h"

#include <nlohmann/json.hpp>

namespace composer {
namespace {

template <class Json>
std::string shown_json(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40);
}

bool nests_too_deep(std::string_view text) {
  constexpr int most = 64;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{') && ++depth > most)
      return true;
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

}  // namespace

std::string shown_value(const nlohmann::json& value) { return shown_json(value); }
std::string shown_value(const nlohmann::ordered_json& value) { return shown_json(value); }

template <class Json>
Json parse_foreign(std::string_view text) {
  if (nests_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

template nlohmann::json parse_foreign<nlohmann::json>(std::string_view);
template nlohmann::ordered_json parse_foreign<nlohmann::ordered_json>(std::string_view);

}  // namespace composer
