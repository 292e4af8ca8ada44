// Catch2's main, which opens CUDA before any test asks about it, seeds PyTorch's generators before
// each test, and can hold tests to a time.
#define CATCH_CONFIG_RUNNER
#include <ATen/Context.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "composer/cuda.h"

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

/// With COMPOSER_TEST_SECONDS, tests that need more CPU time than that fail the program.
class TimeLimit : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    begin_ = cpu_seconds();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    const char* const limit = std::getenv("COMPOSER_TEST_SECONDS");
    const double seconds = cpu_seconds() - begin_;
    if (limit == nullptr || seconds <= std::atof(limit)) return;
    std::cerr << "'" << stats.testInfo.name << "' took " << seconds
              << " s of CPU time; the quick tests may take " << limit << ": tag it [slow]\n";
    too_slow = true;
  }

 private:
  double begin_ = 0;
};
CATCH_REGISTER_LISTENER(TimeLimit)

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const auto& config = session.configData();
  const bool only_lists = config.listTests || config.listTestNamesOnly || config.listTags;
  if (!only_lists && !config.showHelp) composer::open_cuda();
  const int failed = session.run();
  return failed == 0 && too_slow ? 1 : failed;
}
