#include "cli/compatibility_lines.h"

#include "base/text.h"
#include "composer/recipe/registry.h"

namespace composer {

std::vector<Line> compatibility_lines(const std::string& name) {
  const auto& algorithms = registry().algorithms;
  std::vector<Line> lines;
  const auto own = algorithms.make(name)->compatibility();
  for (const auto& [other, reason] : own.excludes) lines.emplace_back("not with " + other, reason);
  for (const auto& other : algorithms.names())
    for (const auto& [excluded, reason] : algorithms.make(other)->compatibility().excludes)
      if (excluded == name) lines.emplace_back("not with " + other, reason);
  for (const auto& [key, values, reason] : own.needs)
    lines.emplace_back("needs " + key + ": " + joined(values, " or "), reason);
  return lines;
}

}  // namespace composer
