// State that is restored later: the values of tensors, and the states of LibTorch's generators.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <vector>

namespace composer {

/// A copy of the values of `tensors`, on their devices, for a batch that runs once more or a step
/// that may fail.
class Snapshot {
 public:
  explicit Snapshot(const std::vector<at::Tensor>& tensors);

  /// Writes the values back, bit by bit. No tensor changes its storage.
  void restore();

 private:
  struct Copies {
    std::vector<at::Tensor> tensors, values;
  };
  std::map<at::ScalarType, Copies> by_type_;  ///< multi-tensor operations take one type a call
};

/// The states of the generators that a layer on `device` may draw from: the CPU's and the device's.
std::vector<at::Tensor> generator_states(at::Device device);
void set_generator_states(at::Device device, const std::vector<at::Tensor>& states);

/// While it lives, generators continue from `states`; afterwards they have their previous states.
class DrawsAgain {
 public:
  DrawsAgain(at::Device device, const std::vector<at::Tensor>& states)
      : device_(device), now_(generator_states(device)) {
    set_generator_states(device, states);
  }
  ~DrawsAgain() { set_generator_states(device_, now_); }
  DrawsAgain(const DrawsAgain&) = delete;
  DrawsAgain& operator=(const DrawsAgain&) = delete;

 private:
  at::Device device_;
  std::vector<at::Tensor> now_;
};

}  // namespace composer
