// libcomposer_cuda.so opens, and CUDA graphs in it: on a GPU, where there is one, a recorded sum is
// replayed, and a recording that fails leaves everything usable; else it says that there is none. A
// program of its own, as LibTorch's CUDA library stays open.
#include <ATen/ATen.h>

#include <iostream>

#include "composer/run/step_recorder.h"
#include "nn/device/cuda_library.h"
#include "tests/first_gpu.h"

namespace {

using composer::StepRecorder;

void check(bool holds, const char* what) {
  std::cout << (holds ? "holds: " : "DOES NOT HOLD: ") << what << '\n';
  if (!holds) std::exit(1);
}

/// total += 1 at each replay, by way of memory that only the recording has.
void check_sums(StepRecorder& recorder, const char* what) {
  const auto total = at::zeros({3}, at::Device(at::kCUDA, 0));
  const auto add = [&] { total.add_(at::ones_like(total) * 0.5, 2); };
  recorder.run(add);
  const auto recording = recorder.record(add);
  check(total.sum().item<double>() == 3, "what is recorded is not done");
  for (int i = 0; i < 4; ++i) recording->replay();
  check(total.sum().item<double>() == 15, what);
}

/// Whether a recording that waits for the GPU throws.
bool refuses_waits(StepRecorder& recorder) {
  const auto number = at::ones({1}, at::Device(at::kCUDA, 0));
  try {
    recorder.record([&] { number.add_(1).item<float>(); });
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

/// Throws where LibTorch takes it for a part of a recording.
bool draws() {
  const auto some = at::rand({64}, at::Device(at::kCUDA, 0));
  return some.min().item<float>() < some.max().item<float>();
}

}  // namespace

int main() {
  return composer::on_first_gpu("driver", [] {
    auto* const open = reinterpret_cast<OpenStepRecorder*>(
        composer::function_of_cuda_library("composer_step_recorder", "this test needs"));
    const std::unique_ptr<StepRecorder> recorder(open());
    check_sums(*recorder, "each replay adds");
    check(refuses_waits(*recorder), "a wait cannot be recorded");
    check(draws(), "the GPU draws after a failure");
    check_sums(*recorder, "after a failure too");
    return 0;
  });
}
