#include "nn/optimization/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace composer {
namespace {

/// Rounds down, but 28.999999999999996 (0.29 * 100) to 29.
double cut(double value) { return std::floor(value + 1e-6); }

}  // namespace

double multiplier(const std::vector<std::shared_ptr<Scheduler>>& schedulers, const Timestamp& now,
                  const RunLength& run_length, double scale_schedule_ratio) {
  const auto planned = run_length.as_planned();
  double product = 1;
  for (const auto& scheduler : schedulers)
    product *= scheduler->multiplier(now, planned, scale_schedule_ratio);
  return product;
}

std::vector<std::string> check(const std::vector<std::shared_ptr<Scheduler>>& schedulers,
                               const RunLength& run_length, double scale_schedule_ratio) {
  const auto planned = run_length.as_planned();
  std::vector<std::string> warnings, problems;
  for (const auto& scheduler : schedulers) {
    try {
      for (auto& warning : scheduler->check(planned, scale_schedule_ratio))
        warnings.push_back("schedulers: " + warning);
    } catch (const UserError& error) {
      for (const auto& problem : error.problems()) problems.push_back("schedulers: " + problem);
    }
  }
  if (!problems.empty()) throw UserError(problems);
  return warnings;
}

Time scale_duration(const Time& max_duration, double ratio) {
  Time scaled = max_duration;
  scaled.value *= ratio;
  if (scaled.unit != TimeUnit::second) scaled.value = cut(scaled.value);
  if (scaled.value <= 0)
    throw UserError("scale_schedule_ratio: nothing is left of max_duration " + max_duration.str() +
                    "; use a larger ratio");
  return scaled;
}

TimeAxis::TimeAxis(const Timestamp& now, const RunLength& run_length, double scale_schedule_ratio,
                   const std::vector<NamedTime>& times, bool at_epochs)
    : run_length_(run_length), ratio_(scale_schedule_ratio) {
  seconds_ = run_length.max_duration.unit == TimeUnit::second &&
             std::ranges::any_of(times, [](const NamedTime& named) {
               return named.time.unit == TimeUnit::second || named.time.unit == TimeUnit::duration;
             });
  if (seconds_ && at_epochs)
    throw UserError("interval: epoch has no meaning for shares of max_duration " +
                    run_length.max_duration.str() + "; use step");
  now_ = seconds_
             ? now.seconds
             : static_cast<double>(run_length.position(now) - (at_epochs ? now.batch_in_epoch : 0));
}

double TimeAxis::length(const Time& time, bool scaled) const {
  const double ratio = scaled ? ratio_ : 1;
  if (!seconds_) {
    const double batches = cut(run_length_.batches(time));
    return time.unit == TimeUnit::duration ? batches : cut(batches * ratio);
  }
  if (time.unit == TimeUnit::second) return time.value * ratio;
  if (time.unit == TimeUnit::duration) return time.value * run_length_.max_duration.value;
  throw UserError(time.str() + " cannot be placed in a run of " + run_length_.max_duration.str() +
                  " beside times in sec or dur; use sec or dur");
}

double TimeAxis::period(const Time& time) const {
  return seconds_ ? length(time) : std::max(1.0, length(time));
}

double TimeAxis::run() const {
  if (seconds_) return run_length_.max_duration.value;
  const auto batches = run_length_.total_batches();
  return batches ? static_cast<double>(*batches) : std::numeric_limits<double>::infinity();
}

double TimeAxis::whole(double length) const { return seconds_ ? length : cut(length); }

}  // namespace composer
