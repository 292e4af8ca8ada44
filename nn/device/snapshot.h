// Tensors as they were before something that shall leave no trace in them: a batch that goes
// through the network once more, a step that fails.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <vector>

namespace composer {

/// A copy of the values of `tensors`, on their devices.
class Snapshot {
 public:
  explicit Snapshot(const std::vector<at::Tensor>& tensors);

  /// Puts the values back, bit by bit. No tensor changes its storage.
  void restore();

 private:
  struct Kept {
    std::vector<at::Tensor> tensors, values;
  };
  std::map<at::ScalarType, Kept> by_type_;  ///< multi-tensor operations take one type a call
};

}  // namespace composer
