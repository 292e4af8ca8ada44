// The states of LibTorch's generators, for passes that shall draw what others drew.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace composer {

/// Of the generators that a layer on `device` may draw from: the CPU's, and the device's own.
std::vector<at::Tensor> generator_states(at::Device device);
void set_generator_states(at::Device device, const std::vector<at::Tensor>& states);

/// Generators are as they were at another time, while one lives.
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
