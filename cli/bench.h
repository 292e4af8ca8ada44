// The benchmarks of the subcommand bench.
#pragma once

#include <vector>

#include "cli/commands.h"

namespace composer {

/// The median of one or more values.
double median(std::vector<double> values);

/// X(name) for each benchmark.
#define COMPOSER_BENCHMARKS(X) \
  X(step) X(overhead) X(headspace) X(loader) X(image) X(infer) X(augment)

#define X(name) int bench_##name##_command(const Words& words);
COMPOSER_BENCHMARKS(X)
#undef X

}  // namespace composer
