#include "inference/graph/json_location.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace composer {

void rethrow_at(const std::string& location) {
  try {
    throw;
  } catch (const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const auto end = text.find("] ");  // the end of the library's prefix
    throw std::invalid_argument(location + ": " +
                                (end == std::string::npos ? text : text.substr(end + 2)));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(location + ": " + error.what());
  }
}

void check_whole(const nlohmann::ordered_json& json, bool is_signed) {
  const bool fits = json.is_number_unsigned()
                        ? !is_signed || std::in_range<int64_t>(json.get<uint64_t>())
                        : json.is_number_integer() && is_signed;
  if (!fits)
    throw std::invalid_argument(std::string("must be a whole number") +
                                (is_signed ? "" : " that is not negative") + ", not " +
                                (json.is_number() ? json.dump() : std::string(json.type_name())));
}

}  // namespace composer
