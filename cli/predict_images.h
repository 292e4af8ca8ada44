// The images that predict --source names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

/// The labels that a list gives to images.
struct ImageLabels {
  std::string list{};                ///< path of the list; empty without one
  std::vector<std::string> texts{};  ///< label of each image, or empty
  std::vector<int64_t> lines{};      ///< line of each image in the list
};

struct PredictImages {
  std::vector<std::string> files;  ///< image files, or one .beton file
  ImageLabels labels{};
};

/// The images at --source: one image, a folder or a .beton file, local or remote, or a list, whose
/// images may have labels. Warns of files that are left out. UserError when there are none.
PredictImages predict_images(const std::string& source);

}  // namespace composer
