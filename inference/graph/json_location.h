// Where in a JSON file something is wrong.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace composer {

/// In a handler: what is caught goes on, complaints and nlohmann's as at_place says.
[[noreturn]] void rethrow_at(const std::string& place);

/// What `read` gives; its complaints, and nlohmann's, become std::invalid_argument that names the
/// place: "graph.values[3]: ...".
template <class Read>
decltype(auto) at_place(const std::string& place, const Read& read) {
  try {
    return read();
  } catch (...) {
    rethrow_at(place);
  }
}

/// Complains where `json` is no whole number: of 64 bits, with a sign or without.
void check_whole(const nlohmann::ordered_json& json, bool is_signed);

/// json[key] -> value, as at_place of the key. A whole number, and those of a list, are no
/// fractions.
template <class Json, class Value>
void read_key(const Json& json, const std::string& key, Value& value) {
  at_place(key, [&] {
    const Json& from = json.at(key);
    if constexpr (std::is_same_v<Value, int64_t> || std::is_same_v<Value, size_t>) {
      check_whole(from, std::is_signed_v<Value>);
    } else if constexpr (requires {
                           requires std::is_same_v<typename Value::value_type, int64_t>;
                         }) {
      for (const auto& entry : from) check_whole(entry, true);
    }
    from.get_to(value);
  });
}

template <class Value, class Json>
Value read_key(const Json& json, const std::string& key) {
  Value value{};
  read_key(json, key, value);
  return value;
}

/// As at_place of each entry of the list json[key].
template <class Json, class Read>
void read_entries(const Json& json, const std::string& key, const Read& read) {
  const auto& entries = at_place(key, [&]() -> const Json& {
    if (!json.at(key).is_array()) throw std::invalid_argument("is no list");
    return json.at(key);
  });
  for (size_t i = 0; i < entries.size(); ++i)
    at_place(key + "[" + std::to_string(i) + "]", [&] { read(entries[i]); });
}

}  // namespace composer
