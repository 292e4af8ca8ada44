#include "inference/json_place.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace composer {

void rethrow_at(const std::string& place) {
  try {
    throw;
  } catch (const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const auto end = text.find("] ");  // of the library's name for it
    throw std::invalid_argument(place + ": " +
                                (end == std::string::npos ? text : text.substr(end + 2)));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(place + ": " + error.what());
  }
}

}  // namespace composer
