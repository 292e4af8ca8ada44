// Where in a JSON file something is wrong.
#pragma once

#include <stdexcept>
#include <string>

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
