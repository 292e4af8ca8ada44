// Tensors at the numbers that codes of 8 bits have, while a network trains: what quantization_aware
// has layers compute with.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

namespace composer {

/// float32 or bfloat16 values -> the numbers of the nearest of `2^bits` codes between their
/// smallest and their largest, 0 among them. The gradient passes through unchanged.
at::Tensor rounded_activations(const at::Tensor& values, int64_t bits);

/// weight [out, ...] -> the numbers of its int8 codes, with a scale for each output. The gradient
/// passes through unchanged.
at::Tensor rounded_weight(const at::Tensor& weight);

/// What a convolution or a linear layer reads, rounded or as it is.
struct Rounder {
  int64_t bits = 0;  ///< of activations; 0: all as it is

  at::Tensor input(const at::Tensor& values) const {
    return bits == 0 ? values : rounded_activations(values, bits);
  }
  at::Tensor weight(const at::Tensor& values) const {
    return bits == 0 ? values : rounded_weight(values);
  }
};

/// A layer that computes with several convolutions or linear layers.
class RoundsWithin {
 public:
  virtual ~RoundsWithin() = default;

  /// As forward() in training, where each of them reads what the rounder makes of its input and of
  /// its weight. A layer's own parameter is the caller's to round.
  virtual at::Tensor forward_rounded(const at::Tensor& input, const Rounder& rounder) = 0;
};

/// Keeps a rounded weight in the place of a layer's while it lives.
class RoundedWeight {
 public:
  explicit RoundedWeight(at::Tensor& place)
      : place_(place), before_(std::exchange(place, rounded_weight(place))) {}
  ~RoundedWeight() { place_ = before_; }
  RoundedWeight(const RoundedWeight&) = delete;
  RoundedWeight& operator=(const RoundedWeight&) = delete;

 private:
  at::Tensor& place_;
  const at::Tensor before_;
};

}  // namespace composer
