#include "nn/network/bf16_choice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "nn/device/cpu_instructions.h"
#include "nn/device/one_thread.h"

namespace composer {
namespace {

/// Less is within a probe's noise, and what surrounds the convolutions gains less than they do.
constexpr double least_speedup = 1.1;

constexpr double probe_seconds = 0.2;  ///< after which no further round begins
constexpr int probe_rounds = 4;

/// One of a residual network's convolutions on two images.
class ProbedConvolution {
 public:
  ProbedConvolution(int64_t channels, int64_t size, at::ScalarType type) {
    images_ = at::full({2, channels, size, size}, 0.5, type);
    weights_ = at::full({channels, channels, 3, 3}, 0.01, type);
  }

  /// Runs both passes; keeps the shortest time.
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

/// Seconds of all, in the best round of each.
double seconds_of(const std::vector<ProbedConvolution>& convolutions) {
  double seconds = 0;
  for (const auto& convolution : convolutions) seconds += convolution.best();
  return seconds;
}

double measure_speedup() {
  const at::NoGradGuard no_grad;
  const OneThread one_thread;  // several would measure how they wait for each other
  std::vector<ProbedConvolution> exact, rounded;
  for (const auto& [channels, size] : {std::pair<int64_t, int64_t>{64, 56}, {256, 14}}) {
    exact.emplace_back(channels, size, at::kFloat);
    rounded.emplace_back(channels, size, at::kBFloat16);
  }
  const auto round = [&] {
    for (size_t i = 0; i < exact.size(); ++i) exact[i].run(), rounded[i].run();
  };
  round();  // oneDNN makes its kernels
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
