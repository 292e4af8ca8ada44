// The fewest layers that have to stay in float32 for a network to be good enough.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace composer {

/// The smallest count of 0 to `most` that is enough, where more is enough too. Nothing where `most`
/// is not enough either.
std::optional<size_t> fewest_enough(size_t most, const std::function<bool(size_t count)>& enough);

/// The fewest found, in the order of `worst_first`, which is called where none are not enough: its
/// shortest beginning that is enough, without those of its layers that prove needless one by one.
/// Nothing where all are not enough. enough: asked once about each set; the last
/// one of which it is true is the result.
std::optional<std::vector<std::string>> fewest_kept(
    const std::function<std::vector<std::string>()>& worst_first,
    const std::function<bool(const std::set<std::string>& kept)>& enough);

}  // namespace composer
