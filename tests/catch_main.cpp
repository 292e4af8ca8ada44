// Catch2's main, which can hold tests to a time.
#define CATCH_CONFIG_RUNNER
#include <sys/resource.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <map>

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

/// CPU time of some work that is the same on every machine, of numbers and of branches.
double unit_of_work() {
  const double begin = cpu_seconds();
  std::array<float, 1024> lanes{};
  for (int i = 0; i < 950'000; ++i)
    for (float& lane : lanes) lane = lane * 0.5F + 1;
  std::map<uint64_t, uint64_t> numbers;
  uint64_t number = static_cast<uint64_t>(lanes[0]);
  for (int i = 0; i < 300'000; ++i) numbers[number = number * 6364136223846793005U + 1] += 1;
  return cpu_seconds() - begin;
}

double most_seconds = 0;  ///< 0: any number
bool too_slow = false;

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

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const auto& config = session.configData();
  const bool only_lists = config.listTests || config.listTestNamesOnly || config.listTags;
  if (!only_lists && !config.showHelp) {
    if (const char* const units = std::getenv("COMPOSER_TEST_UNITS"))
      most_seconds = std::atof(units) * unit_of_work();
  }
  const int failed = session.run();
  return failed == 0 && too_slow ? 1 : failed;
}
