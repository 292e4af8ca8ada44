#include "nn/network/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "nn/device/cpu_instructions.h"
#include "nn/device/one_thread.h"
#include "nn/state_dict.h"

namespace composer {
namespace {

constexpr double initial_scale = 65536, growth = 2, backoff = 0.5;
constexpr int64_t growth_interval = 2000;

/// A smaller speedup is within the probe's noise, and the rest of a network gains less than its
/// convolutions.
constexpr double least_speedup = 1.1;

constexpr double probe_seconds = 0.2;  ///< no further round begins after it
constexpr int probe_rounds = 4;

/// One of a residual network's convolutions on two images.
class ProbedConvolution {
 public:
  ProbedConvolution(int64_t channels, int64_t size, at::ScalarType type) {
    images_ = at::full({2, channels, size, size}, 0.5, type);
    weights_ = at::full({channels, channels, 3, 3}, 0.01, type);
  }

  /// Runs both passes and keeps the shortest time.
  void run() {
    const std::array<int64_t, 2> one{1, 1}, zero{0, 0};
    const double begin = steady_seconds();
    const auto output =
        at::convolution(images_, weights_, {}, one, one, one, /*transposed=*/false, zero, 1);
    at::convolution_backward(output, images_, weights_, at::OptionalIntArrayRef(), one, one, one,
                             false, zero, 1, {true, true, false});
    best_ = std::min(best_, steady_seconds() - begin);
  }

  double best() const { return best_; }  ///< seconds
  void forget() { best_ = std::numeric_limits<double>::infinity(); }

 private:
  at::Tensor images_, weights_;
  double best_ = 0;
};

/// Total seconds, with the best round of each convolution.
double seconds_of(const std::vector<ProbedConvolution>& convolutions) {
  double seconds = 0;
  for (const auto& convolution : convolutions) seconds += convolution.best();
  return seconds;
}

double measure_speedup() {
  const at::NoGradGuard no_grad;
  const OneThread one_thread;  // several threads would also measure waiting for each other
  std::vector<ProbedConvolution> exact, rounded;
  for (const auto& [channels, size] : {std::pair<int64_t, int64_t>{64, 56}, {256, 14}}) {
    exact.emplace_back(channels, size, at::kFloat);
    rounded.emplace_back(channels, size, at::kBFloat16);
  }
  const auto round = [&] {
    for (size_t i = 0; i < exact.size(); ++i) exact[i].run(), rounded[i].run();
  };
  round();  // oneDNN generates its kernels
  for (auto* list : {&exact, &rounded})
    for (auto& convolution : *list) convolution.forget();
  const double begin = steady_seconds();
  for (int i = 0; i < probe_rounds && (i == 0 || steady_seconds() - begin < probe_seconds); ++i)
    round();
  return seconds_of(exact) / seconds_of(rounded);
}

bool is_limited() {
  return !instruction_limit().empty() || std::getenv("ATEN_CPU_CAPABILITY") != nullptr;
}

}  // namespace

std::string_view name(Precision precision) {
  constexpr std::string_view names[]{"fp32", "amp_fp16", "amp_bf16", "tf32"};
  return names[static_cast<size_t>(precision)];
}

Precision resolve_precision(std::string_view word, at::Device device) {
  if (word == "fp32") return Precision::fp32;
  if (word == "amp_fp16") {
    if (device.is_cpu())
      log::warn(
          "precision amp_fp16: the CPU computes in fp16 many times slower than in float32; "
          "fp32 or amp_bf16 is faster here");
    return Precision::amp_fp16;
  }
  if (word == "amp_bf16" || word == "bf16") return Precision::amp_bf16;
  if (word == "tf32") {
    if (!device.is_cpu()) return Precision::tf32;
    log::warn("precision tf32: the CPU has no tf32; training in fp32");
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
  // CUDA's operator takes one type per call.
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
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

Bf16Instructions bf16_instructions() {
  const bool limited = is_limited();
  if (has_instructions("amx_bf16")) return {"AMX", /*matrix=*/true, limited};
  if (has_instructions("avx512_bf16")) return {"AVX512-BF16", false, limited};
  if (has_instructions("avx_ne_convert")) return {"AVX-NE-CONVERT", false, limited};
  if (has_instructions("bf16")) return {"bf16 instructions", false, limited};
  return {};
}

double bf16_speedup() {
  static const double speedup = measure_speedup();
  return speedup;
}

Bf16Choice choose_bf16(const Bf16Instructions& instructions,
                       const std::function<double()>& speedup) {
  if (instructions.name.empty()) return {false, "this processor has no bf16 instructions"};
  if (instructions.matrix && !instructions.limited) return {true, instructions.name};
  const double measured = speedup();
  char text[64];
  std::snprintf(text, sizeof text, "; bf16 is %.1f times as fast in a probe", measured);
  return {measured >= least_speedup, instructions.name + text};
}

}  // namespace composer
