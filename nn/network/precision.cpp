#include "nn/network/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "base/error.h"
#include "base/log.h"
#include "nn/network/bf16_choice.h"
#include "nn/state_dict.h"

namespace composer {
namespace {

constexpr double initial_scale = 65536, growth = 2, backoff = 0.5;
constexpr int64_t growth_interval = 2000;

}  // namespace

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::amp_fp16:
      return "amp_fp16";
    case Precision::amp_bf16:
      return "amp_bf16";
    case Precision::tf32:
      return "tf32";
    case Precision::fp32:
      break;
  }
  return "fp32";
}

Precision resolve_precision(std::string_view word, at::Device device) {
  if (word == "fp32") return Precision::fp32;
  if (word == "amp_fp16") {
    if (device.is_cpu())
      log::warn(
          "precision amp_fp16: the CPU computes in fp16 many times slower than in float32; here "
          "fp32 or amp_bf16 is the faster one");
    return Precision::amp_fp16;
  }
  if (word == "amp_bf16" || word == "bf16") return Precision::amp_bf16;
  if (word == "tf32") {
    if (!device.is_cpu()) return Precision::tf32;
    log::warn("precision tf32: the CPU has none; training in fp32");
    return Precision::fp32;
  }
  if (word != "amp")
    throw UserError("precision: '" + std::string(word) +
                    "' is none of fp32, tf32, amp, amp_fp16, amp_bf16, bf16");
  if (!device.is_cpu()) return Precision::amp_fp16;
  const auto bf16 = choose_bf16(bf16_instructions(), bf16_speedup);
  log::info("precision amp: " + std::string(bf16.faster ? "bf16" : "fp32") + " (" + bf16.reason +
            ")");
  return bf16.faster ? Precision::amp_bf16 : Precision::fp32;
}

void set_float32_rounding(Precision precision) {
  const bool rounds = precision == Precision::tf32;
  at::globalContext().setAllowTF32CuDNN(rounds);
  at::globalContext().setAllowTF32CuBLAS(rounds);
}

Autocast::Autocast(Precision precision, at::Device device)
    : device_(device.type()),
      active_(precision == Precision::amp_fp16 || precision == Precision::amp_bf16) {
  if (!active_) return;
  previous_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_,
                                   precision == Precision::amp_fp16 ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, previous_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
}

GradScaler::GradScaler(bool enabled, at::Device device) : enabled_(enabled) {
  if (!enabled_) return;
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  scale_ = at::full({}, initial_scale, options);
  growth_tracker_ = at::zeros({}, options.dtype(at::kInt));
  found_inf_ = at::zeros({}, options);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return enabled_ ? loss * scale_ : loss;
}

void GradScaler::unscale(std::vector<at::Tensor>& gradients, const Ranks& ranks) {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  found_inf_.zero_();
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;  // CUDA's operator takes one a call
  for (const at::Tensor& gradient : gradients) by_dtype[gradient.scalar_type()].push_back(gradient);
  for (auto& [dtype, list] : by_dtype)
    at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf_, inverse);
  if (ranks.alone()) return;
  ranks.sum(found_inf_);
  found_inf_.clamp_max_(1);
}

void GradScaler::update() {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, growth, backoff, growth_interval);
}

StateDict GradScaler::state_dict() const {
  if (!enabled_) return {};
  return {{{"scale", scale_}, {"growth_tracker", growth_tracker_}}, {}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!enabled_) return;
  scale_.copy_(state.tensor("scale"));
  growth_tracker_.copy_(state.tensor("growth_tracker"));
}

}  // namespace composer
