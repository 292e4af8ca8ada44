// Which kernels take a device's time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/kernel_type.h"
#include "analysis/trace/selection.h"

namespace composer {

/// The kernels of one name and type.
struct KernelTime {
  std::string name;  ///< "others": those that are not listed
  KernelType type = KernelType::computation;
  int64_t calls = 0;
  int64_t sum_ns = 0;
  double max_ns = 0, min_ns = 0, mean_ns = 0, deviation_ns = 0;  ///< of a call
};

/// By type, and by sum from the largest (hta/analyzers/breakdown_analysis.py,
/// _aggr_gpu_kernel_time): of more than rules.most_kernels names of a type, those behind that many,
/// and those whose running sum lies past the quantile rules.kernel_share of the running sums, are
/// "others". rules.as_hta: then the numbers of calls are taken over the sums by name.
std::vector<KernelTime> kernel_breakdown(const RankTrace& trace, const Selection& selection,
                                         const std::vector<KernelType>& types,
                                         const TraceRules& rules);

}  // namespace composer
