#include "inference/quantization/fewest_kept.h"

#include <algorithm>

namespace composer {

std::optional<size_t> fewest_enough(size_t most, const std::function<bool(size_t count)>& enough) {
  if (enough(0)) return 0;
  size_t too_few = 0, count = std::min<size_t>(1, most);
  while (count == too_few || !enough(count)) {
    if (count == most) return {};
    too_few = count;
    count = std::min(2 * count, most);
  }
  while (count - too_few > 1) {
    const size_t middle = too_few + (count - too_few) / 2;
    (enough(middle) ? count : too_few) = middle;
  }
  return count;
}

std::optional<std::vector<std::string>> fewest_kept(
    const std::function<std::vector<std::string>()>& worst_first,
    const std::function<bool(const std::set<std::string>& kept)>& enough) {
  if (enough({})) return std::vector<std::string>();
  auto kept = worst_first();
  const auto first = [&](size_t count) {
    return std::set(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
  };
  const auto count =
      fewest_enough(kept.size(), [&](size_t tried) { return tried > 0 && enough(first(tried)); });
  if (!count) return {};
  kept.resize(*count);
  // The last one is needed: the search has tried without it.
  for (size_t i = kept.size() - 1; i-- > 0;) {
    std::set fewer(kept.begin(), kept.end());
    fewer.erase(kept[i]);
    if (enough(fewer)) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return kept;
}

}  // namespace composer
