// What programs of tests with LibTorch have besides: CUDA is opened before any test asks about it,
// kernels are held to the instructions of a lesser processor where oneDNN is, and each test begins
// from the same seed.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <ATen/ATen.h>
#include <hwy/targets.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "nn/device/cpu_instructions.h"
#include "nn/device/cuda.h"

namespace {

void hold_kernels_to_permitted_instructions() {
  int64_t targets = hwy::SupportedTargets();
  // The better a target, the lower its bit.
  if (!composer::has_instructions("avx512_f")) targets &= ~(HWY_AVX2 - 1);
  if (!composer::has_instructions("avx2")) targets &= ~HWY_AVX2;
  hwy::SetSupportedTargetsForTest(targets);
}

class WithLibTorch : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& info) override {
    TestEventListenerBase::testRunStarting(info);
    composer::open_cuda();
    hold_kernels_to_permitted_instructions();
  }

  /// PyTorch seeds its generators by chance: each test begins from COMPOSER_TEST_SEED, or from 1.
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    const char* const seed = std::getenv("COMPOSER_TEST_SEED");
    at::manual_seed(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  }
};
CATCH_REGISTER_LISTENER(WithLibTorch)

}  // namespace
