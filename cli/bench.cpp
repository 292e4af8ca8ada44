// The subcommand bench.
#include "cli/bench.h"

#include <algorithm>

#include "base/log.h"
#include "base/machine_limits.h"
#include "cli/arguments.h"

namespace composer {
namespace {

#define X(name) {#name, bench_##name##_command},
const CommandTable benchmarks{COMPOSER_BENCHMARKS(X)};
#undef X

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int bench_command(const Words& words) {
  const OtherPrograms others;
  const int status = dispatch("bench", benchmarks, words);
  if (const auto share = others.share(); share && *share >= busy_share)
    log::warn("the machine was busy meanwhile: " + others_text(*share) +
              "; measured alone, the figures would be others");
  return status;
}

}  // namespace composer
