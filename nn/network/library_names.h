// The names of a network's tensors in a Python library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace composer {

/// The library's tensors hold the same numbers in the same order; names and shapes may differ.
struct LibraryNames {
  /// Our path -> the library's path, of a layer (for everything below it) or of a tensor. The
  /// longest path that fits counts; a tensor that none fits has the same name.
  std::map<std::string, std::string> paths{};
  /// The library's shapes where they differ, by our names of the tensors.
  std::map<std::string, std::vector<int64_t>> shapes{};
  /// The library's network, and why it computes something else even so; empty if it computes the
  /// same.
  std::string difference{};
  /// Side of images, in pixels, from which on the library's network computes something else; 0:
  /// never.
  int64_t differs_from = 0;

  std::string name_of(const std::string& ours) const {
    for (size_t end = ours.size(); end != std::string::npos && end > 0;
         end = ours.rfind('.', end - 1))
      if (const auto found = paths.find(ours.substr(0, end)); found != paths.end())
        return found->second + ours.substr(end);
    return ours;
  }
};

}  // namespace composer
