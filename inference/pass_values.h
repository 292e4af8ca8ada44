// The tensors of one pass through a network, as numbers or as codes.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <utility>
#include <vector>

#include "inference/codes.h"

namespace composer {

class PassValues {
 public:
  /// codes: by a value's index what its codes mean. Those values are held as codes, whatever they
  /// are made from.
  PassValues(size_t count, const std::map<size_t, Affine>& codes, int64_t activation_bits)
      : held_(count), affine_(codes), bits_(activation_bits) {}

  void set_numbers(size_t value, at::Tensor tensor) {
    const auto found = affine_.find(value);
    held_[value] =
        found == affine_.end() ? std::move(tensor) : codes_of(tensor, found->second, bits_);
  }
  void set_codes(size_t value, at::Tensor tensor) { held_[value] = std::move(tensor); }
  void drop(size_t value) { held_[value].reset(); }

  at::Tensor numbers(size_t value) const {
    const auto found = affine_.find(value);
    return found == affine_.end() ? held_[value] : numbers_of(held_[value], found->second);
  }
  /// As it is held: codes, or numbers of a value that has none.
  const at::Tensor& codes(size_t value) const { return held_[value]; }

 private:
  std::vector<at::Tensor> held_;
  const std::map<size_t, Affine>& affine_;
  int64_t bits_;
};

}  // namespace composer
