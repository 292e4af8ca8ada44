// What the benchmarks share.
#pragma once

#include <vector>

#include "cli/commands.h"

namespace composer {

/// Of at least one value.
double median(std::vector<double> values);

int bench_step_command(const Words& words);
int bench_overhead_command(const Words& words);
int bench_loader_command(const Words& words);
int bench_headspace_command(const Words& words);
int bench_image_command(const Words& words);
int bench_infer_command(const Words& words);
int bench_augment_command(const Words& words);

}  // namespace composer
