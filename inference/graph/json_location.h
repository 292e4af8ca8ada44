// Errors that name a location in a JSON file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace composer {

/// Call it in a handler: rethrows the current exception as at_location() does.
[[noreturn]] void rethrow_at(const std::string& location);

/// Returns read(). Its std::invalid_argument and nlohmann's exceptions become std::invalid_argument
/// that names the location: "graph.values[3]: ...".
template <class Read>
decltype(auto) at_location(const std::string& location, const Read& read) {
  try {
    return read();
  } catch (...) {
    rethrow_at(location);
  }
}

/// Throws std::invalid_argument where `json` is no whole number of 64 bits, signed or unsigned.
void check_whole(const nlohmann::ordered_json& json, bool is_signed);

/// Reads json[key] into value; errors name the key. Whole numbers, alone or in a list, must not
/// have a fraction.
template <class Json, class Value>
void read_key(const Json& json, const std::string& key, Value& value) {
  at_location(key, [&] {
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

/// Calls read() with each entry of the list json[key]; errors name the entry.
template <class Json, class Read>
void read_entries(const Json& json, const std::string& key, const Read& read) {
  const auto& entries = at_location(key, [&]() -> const Json& {
    if (!json.at(key).is_array()) throw std::invalid_argument("is no list");
    return json.at(key);
  });
  for (size_t i = 0; i < entries.size(); ++i)
    at_location(key + "[" + std::to_string(i) + "]", [&] { read(entries[i]); });
}

}  // namespace composer
