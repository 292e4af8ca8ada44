// Catch2's main, which opens CUDA before any test asks about it, seeds PyTorch's generators before
// each test, and can hold tests to a time and kernels to the instructions of a lesser processor.
#define CATCH_CONFIG_RUNNER
#include <ATen/ATen.h>
#include <hwy/targets.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <map>

#include "nn/device/cpu_instructions.h"
#include "nn/device/cuda.h"

namespace {

/// CPU time of this process and of the children that it waited for.
double cpu_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const auto& time : {usage.ru_utime, usage.ru_stime})
      sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  }
  return sum;
}

/// CPU time of some work that is the same on every machine, of numbers in vectors and of branches.
double unit_of_work() {
  const double begin = cpu_seconds();
  const auto matrix = at::ones({512, 512}), images = at::ones({8, 64, 56, 56});
  const auto weight = at::ones({64, 64, 3, 3});
  for (int i = 0; i < 10; ++i) at::conv2d(images, weight, {}, 1, 1).add_(matrix.mm(matrix)[0][0]);
  std::map<uint64_t, uint64_t> numbers;
  uint64_t number = 1;
  for (int i = 0; i < 300'000; ++i) numbers[number = number * 6364136223846793005U + 1] += 1;
  return cpu_seconds() - begin;
}

double most_seconds = 0;  ///< 0: any number
bool too_slow = false;

/// PyTorch seeds its generators by chance: each test begins from COMPOSER_TEST_SEED, or from 1.
class Seed : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    const char* const seed = std::getenv("COMPOSER_TEST_SEED");
    at::manual_seed(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  }
};
CATCH_REGISTER_LISTENER(Seed)

/// With COMPOSER_TEST_UNITS, tests that need more CPU time than so many units of work fail the
/// program.
class TimeLimit : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    begin_ = cpu_seconds();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    const double seconds = cpu_seconds() - begin_;
    if (most_seconds == 0 || seconds <= most_seconds) return;
    std::cerr << "'" << stats.testInfo.name << "' took " << seconds
              << " s of CPU time; on this machine the quick tests may take " << most_seconds
              << ": tag it [slow]\n";
    too_slow = true;
  }

 private:
  double begin_ = 0;
};
CATCH_REGISTER_LISTENER(TimeLimit)

/// Of ours, too, where oneDNN is held to the instructions of a lesser processor.
void hold_kernels_to_permitted_instructions() {
  int64_t targets = hwy::SupportedTargets();
  // The better a target, the lower its bit.
  if (!composer::has_instructions("avx512_f")) targets &= ~(HWY_AVX2 - 1);
  if (!composer::has_instructions("avx2")) targets &= ~HWY_AVX2;
  hwy::SetSupportedTargetsForTest(targets);
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const auto& config = session.configData();
  const bool only_lists = config.listTests || config.listTestNamesOnly || config.listTags;
  if (!only_lists && !config.showHelp) {
    composer::open_cuda();
    hold_kernels_to_permitted_instructions();
    if (const char* const units = std::getenv("COMPOSER_TEST_UNITS"))
      most_seconds = std::atof(units) * unit_of_work();
  }
  const int failed = session.run();
  return failed == 0 && too_slow ? 1 : failed;
}
