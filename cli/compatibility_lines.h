// What an algorithm says of its place in a recipe, for people.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace composer {

/// Two words and what is said of them.
using Line = std::pair<std::string, std::string>;

/// What the algorithm of this name does not go with, by its own word or by the other's, and what it
/// needs.
std::vector<Line> compatibility_lines(const std::string& name);

}  // namespace composer
