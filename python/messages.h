// The log's lines, which this library keeps for its caller in place of writing them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace composer {

/// The lines since the last call, as level ("info" or "warning") and text: the last 1000, where
/// nobody asked for more.
std::vector<std::pair<std::string, std::string>> take_messages();

}  // namespace composer
