// What a library of Python's calls the tensors of a network.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace composer {

/// The library's tensors hold the same numbers in the same order, under names and in shapes that
/// may be others.
struct LibraryNames {
  /// Paths of layers, for all that is below them, or of tensors: ours and the library's. The
  /// longest that fits counts; what none fits has the same name.
  std::map<std::string, std::string> paths{};
  /// The library's shapes, where they are others, by our names of the tensors.
  std::map<std::string, std::vector<int64_t>> shapes{};
  /// The library's network, and what makes it compute something else all the same; empty: nothing.
  std::string difference{};
  /// Pixels a side of images from which on it computes something else; 0: it never does.
  int64_t differs_from = 0;

  std::string name_of(const std::string& ours) const;
};

}  // namespace composer
