// Mixed precision: the autocast context, and dynamic loss scaling for fp16.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/stateful.h"

namespace composer {

/// Arithmetic of forward and loss. Weights and optimizer state stay float32. tf32 is fp32 whose
/// convolutions and matrix products a GPU computes from factors rounded to 10 bits of mantissa.
enum class Precision { fp32, amp_fp16, amp_bf16, tf32 };

std::string_view name(Precision precision);

/// Words of the recipe key `precision`: fp32, tf32, amp, amp_fp16, amp_bf16, bf16. `amp` is fp16
/// with loss scaling on CUDA; on the CPU it is bf16 where that is faster (bf16_choice.h), else
/// fp32, and a line says why. bf16 means amp_bf16. The CPU has no tf32: a warning, and fp32.
Precision resolve_precision(std::string_view word, at::Device device);

/// Whether GPUs round the factors of float32 convolutions and matrix products: for tf32 they do.
/// LibTorch's own default is to do so in convolutions.
void set_float32_rounding(Precision precision);

/// Autocast for the lifetime of the object; nothing for fp32 and tf32.
class Autocast {
 public:
  Autocast(Precision precision, at::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool active_, previous_enabled_ = false;
  at::ScalarType previous_dtype_ = at::kFloat;
};

/// Dynamic loss scaling (Micikevicius et al. 2018), on device tensors only: no step waits for the
/// device. Scale starts at 65536, doubles after 2000 steps without inf or NaN, halves on one.
class GradScaler : public Stateful {
 public:
  GradScaler(bool enabled, at::Device device);

  bool enabled() const { return enabled_; }
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale in place and notes whether any is not finite, on any of
  /// `ranks`, which have gradients of their own.
  void unscale(std::vector<at::Tensor>& gradients, const Ranks& ranks = {});
  /// float32 scalar, 1 if the last unscale met a non-finite gradient; undefined when disabled.
  const at::Tensor& found_inf() const { return found_inf_; }
  void update();

  at::Tensor scale_tensor() const { return scale_; }             ///< float32 []
  at::Tensor growth_tracker() const { return growth_tracker_; }  ///< int32 []

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  bool enabled_;
  at::Tensor scale_, growth_tracker_, found_inf_;
};

}  // namespace composer
