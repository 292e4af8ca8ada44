// Mixed precision: the autocast context, dynamic loss scaling for fp16, and whether bf16 is the
// faster arithmetic of this processor.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/stateful.h"

namespace composer {

/// Arithmetic of the forward pass and the loss; weights and optimizer state stay float32. tf32:
/// fp32, but a GPU rounds the factors of convolutions and matrix products to 10 bits of mantissa.
enum class Precision { fp32, amp_fp16, amp_bf16, tf32 };

std::string_view name(Precision precision);

/// Words of the recipe key `precision`: fp32, tf32, amp, amp_fp16, amp_bf16, bf16. `amp` is fp16
/// with loss scaling on CUDA; on the CPU it is bf16 where bf16 is faster (choose_bf16()), else
/// fp32, and the log says why. bf16 means amp_bf16. The CPU has no tf32: it computes in fp32, with
/// a warning.
Precision resolve_precision(std::string_view word, at::Device device);

/// Lets GPUs round the factors of float32 convolutions and matrix products for tf32, and for no
/// other precision. LibTorch's default rounds those of convolutions.
void set_float32_rounding(Precision precision);

/// Enables autocast while it lives; does nothing for fp32 and tf32.
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
/// device. The scale starts at 65536, doubles after 2000 steps without inf or NaN, and halves on
/// one.
class GradScaler : public Stateful {
 public:
  GradScaler(bool enabled, at::Device device);

  bool enabled() const { return enabled_; }
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale, in place, and notes whether any gradient on any of `ranks`
  /// is not finite; each rank has its own gradients.
  void unscale(std::vector<at::Tensor>& gradients, const Ranks& ranks = {});
  /// float32 scalar, 1 if the last unscale() met a non-finite gradient; undefined when disabled.
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

struct Bf16Instructions {
  std::string name;      ///< "AMX", "AVX512-BF16", ...; empty where the processor has none
  bool matrix = false;   ///< instructions for whole tiles, which are always faster than float32
  bool limited = false;  ///< the environment forbids LibTorch some instructions
};

/// The bf16 instructions of this processor.
Bf16Instructions bf16_instructions();

/// The speed of a few usual convolutions, forward and backward, in bf16 relative to float32, on one
/// thread: from the best of alternating rounds, within about 0.3 s. Measured once per process.
double bf16_speedup();

struct Bf16Choice {
  bool faster;
  std::string reason;  ///< for people: "AMX"
};

/// bf16 is faster with unlimited matrix instructions, slower without any bf16 instructions, and
/// else faster where `speedup`, which is only called then, is at least 1.1.
Bf16Choice choose_bf16(const Bf16Instructions& instructions,
                       const std::function<double()>& speedup);

}  // namespace composer
