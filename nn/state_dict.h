// The state that a part of a run saves in checkpoints.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "base/error.h"

namespace composer {

/// Tensors by name, and plain values by name.
struct StateDict {
  using Value = std::variant<bool, int64_t, double, std::string>;
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, Value> values;
  /// The owner of each tensor that only one rank has; on the other ranks the tensor has a shape but
  /// no memory (device meta). Every rank has the tensors that are not named here.
  std::map<std::string, int64_t> holders{};

  bool empty() const { return tensors.empty() && values.empty(); }

  /// The value of that name if there is one of that type, or null.
  template <class T>
  const T* find(const std::string& name) const {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : std::get_if<T>(&found->second);
  }

  /// The tensor of that name. UserError when there is none.
  const at::Tensor& tensor(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw UserError("has no tensor '" + name + "'");
    return found->second;
  }
};

}  // namespace composer
