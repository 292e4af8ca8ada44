#include "analysis/trace/kernel_breakdown.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/trace/statistics.h"

namespace composer {
namespace {

/// Durations so far, by Welford's method.
class Durations {
 public:
  void add(int64_t ns) {
    ++calls_;
    sum_ns_ += ns;
    const auto value = static_cast<double>(ns);
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
    const double from_mean = value - mean_;
    mean_ += from_mean / static_cast<double>(calls_);
    squares_ += from_mean * (value - mean_);
  }

  /// What both together are (Chan et al. 1979).
  void add(const Durations& other) {
    const auto mine = static_cast<double>(calls_), theirs = static_cast<double>(other.calls_);
    const double apart = other.mean_ - mean_;
    squares_ += other.squares_ + apart * apart * mine * theirs / (mine + theirs);
    mean_ += apart * theirs / (mine + theirs);
    calls_ += other.calls_;
    sum_ns_ += other.sum_ns_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
  }

  int64_t calls() const { return calls_; }
  int64_t sum_ns() const { return sum_ns_; }

  KernelTime as(std::string name, KernelType type) const {
    const double deviation = calls_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(calls_ - 1));
    return {std::move(name), type, calls_, sum_ns_, max_, min_, mean_, deviation};
  }

 private:
  int64_t calls_ = 0, sum_ns_ = 0;
  double max_ = std::numeric_limits<double>::lowest(), min_ = std::numeric_limits<double>::max();
  double mean_ = 0, squares_ = 0;
};

struct NamedDurations {
  uint32_t name = 0;
  Durations durations;
};

/// How many of the names, by sum from the largest, are listed.
size_t names_listed(const std::vector<NamedDurations>& by_sum, const TraceRules& rules) {
  const auto most = static_cast<size_t>(rules.most_kernels);
  if (by_sum.size() <= most) return by_sum.size();
  std::vector<double> running;
  for (const auto& each : by_sum)
    running.push_back((running.empty() ? 0 : running.back()) +
                      static_cast<double>(each.durations.sum_ns()));
  const double past = quantile(running, rules.kernel_share);
  const auto small = std::ranges::upper_bound(running, past) - running.begin();
  return std::min(most, static_cast<size_t>(small));
}

/// Appends those of one type.
void append(const RankTrace& trace, KernelType type, std::vector<NamedDurations> kernels,
            const TraceRules& rules, std::vector<KernelTime>& rows) {
  std::ranges::stable_sort(kernels, std::greater(),
                           [](const auto& each) { return each.durations.sum_ns(); });
  const size_t listed = names_listed(kernels, rules);
  const bool over_sums = rules.as_hta && static_cast<int64_t>(kernels.size()) > rules.most_kernels;
  Durations others;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Durations durations = kernels[i].durations;
    if (over_sums) durations = {}, durations.add(kernels[i].durations.sum_ns());
    if (i < listed)
      rows.push_back(durations.as(std::string(trace.names[kernels[i].name]), type));
    else
      others.add(durations);
  }
  if (listed < kernels.size()) rows.push_back(others.as("others", type));
}

}  // namespace

std::vector<KernelTime> kernel_breakdown(const RankTrace& trace, const Selection& selection,
                                         const std::vector<KernelType>& types,
                                         const TraceRules& rules) {
  std::vector<Durations> by_name(trace.names.size());
  for (const auto& launched : selection.device) {
    const auto& event = trace.events[launched.event];
    by_name[event.name].add(event.duration_ns);
  }
  std::vector<KernelTime> rows;
  for (const auto type : {KernelType::computation, KernelType::communication, KernelType::memory}) {
    std::vector<NamedDurations> kernels;
    for (uint32_t i = 0; i < by_name.size(); ++i)
      if (by_name[i].calls() > 0 && types[i] == type) kernels.push_back({i, by_name[i]});
    append(trace, type, std::move(kernels), rules, rows);
  }
  return rows;
}

}  // namespace composer
