#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace composer {

/// A layer cannot compute on a tensor of the size that it gets. Each slot on the way out adds its
/// name to the path.
class LayerError : public RunError {
 public:
  explicit LayerError(std::string problem, std::string path = {})
      : RunError((path.empty() ? "" : "layer " + path + ": ") + problem),
        problem_(std::move(problem)),
        path_(std::move(path)) {}

  LayerError inside(const std::string& name) const {
    return LayerError(problem_, path_.empty() ? name : name + "." + path_);
  }

 private:
  std::string problem_, path_;
};

}  // namespace composer
