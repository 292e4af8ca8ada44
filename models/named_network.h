// The base class of this folder's networks.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/params/params.h"
#include "models/initializers.h"
#include "nn/network/model.h"

namespace composer {

/// A network made with its name, its number of classes and its stride (Model::stride()).
class NamedNetwork : public Model {
 public:
  int64_t num_classes() const override { return num_classes_; }
  int64_t stride() const override { return stride_; }
  std::string describe() const override { return name_; }

 protected:
  NamedNetwork(std::string name, int64_t num_classes, int64_t stride)
      : name_(std::move(name)), num_classes_(num_classes), stride_(stride) {}

  /// Initialises every convolution and every linear layer, then applies the recipe's initializers.
  void initialize(void (*conv)(Conv2d&), void (*linear)(Linear&),
                  const std::vector<std::string>& initializers);

 private:
  std::string name_;
  int64_t num_classes_, stride_;
};

/// The size that `sizes`, pairs of a model_name and a size, has for `model_name`. UserError if
/// it has none.
const auto& size_of(const auto& sizes, std::string_view model_name) {
  const auto found =
      std::ranges::find_if(sizes, [&](const auto& size) { return size.first == model_name; });
  if (found == std::end(sizes))
    throw UserError("model_name: no network '" + std::string(model_name) + "'");
  return found->second;
}

}  // namespace composer
