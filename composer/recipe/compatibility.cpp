#include "composer/recipe/compatibility.h"

#include <algorithm>
#include <functional>

#include "base/params/kinds.h"
#include "base/params/params.h"
#include "base/text.h"

namespace composer {
namespace {

using Visit = std::function<void(const std::string& path, const Value& value)>;

/// Calls `visit` for every key below `map` that matches `key`.
void find_all(const Value& map, const std::string& path, const std::string& key,
              const Visit& visit) {
  const size_t dot = key.find('.');
  const std::string name = key.substr(0, dot);
  for (const auto& [entry, origin, value] : map.entries) {
    if (name != "*" && name != entry) continue;
    const std::string here = join_path(path, entry);
    if (dot == std::string::npos)
      visit(here, value);
    else
      find_all(value, here, key.substr(dot + 1), visit);
  }
}

/// Compares texts, and numbers by value: 0 and 0.0 are equal.
bool same(const std::string& a, const std::string& b) {
  return a == b || (to_number<double>(a) && to_number<double>(a) == to_number<double>(b));
}

}  // namespace

void check(const std::vector<Declared>& algorithms, const Value& recipe, Problems& problems) {
  for (const auto& [name, origin, compatibility] : algorithms) {
    const auto problem = [&, &name = name, &origin = origin](const std::string& message) {
      problems.push_back({origin, path_of(ChoiceKey::algorithms, name), message});
    };
    for (const auto& [other, reason] : compatibility.excludes)
      if (std::ranges::find(algorithms, other, &Declared::name) != algorithms.end())
        problem("does not go with " + other + ": " + reason + "; remove one of them");
    for (const auto& need : compatibility.needs)
      find_all(recipe, "", need.key, [&](const std::string& path, const Value& value) {
        const auto text = one_line(value);
        if (std::ranges::none_of(need.values, [&](const auto& one) { return same(one, text); }))
          problem("needs " + path + ": " + joined(need.values, " or ") + ", not " + text + ": " +
                  need.reason);
      });
  }
}

}  // namespace composer
