// Learning-rate schedules: pure functions of the time in a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"

namespace composer {

/// An entry of a recipe's `schedulers`. Several multiply. It has no state: resuming needs only the
/// time.
///
/// scale_schedule_ratio (SSR) is the factor by which the run was shortened: schedule.max_duration
/// is shortened already (scale_duration), and a scheduler shortens its own times in ep, ba and sp
/// too; fractions of the run (dur) scale by themselves.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// The factor of the recipe's learning rate for the batch that starts at `now`.
  virtual double multiplier(const Timestamp& now, const RunLength& run_length,
                            double scale_schedule_ratio) const = 0;

  /// Warnings for the user before such a run, one line each. UserError for times that cannot be
  /// placed in this run. Lines start with the parameter: "t_warmup: ...".
  virtual std::vector<std::string> check(const RunLength& run_length,
                                         double scale_schedule_ratio) const {
    multiplier({}, run_length, scale_schedule_ratio);
    return {};
  }
};

/// The product over all schedulers, in the schedule as planned; 1 without schedulers.
double multiplier(const std::vector<std::shared_ptr<Scheduler>>& schedulers, const Timestamp& now,
                  const RunLength& run_length, double scale_schedule_ratio = 1);

/// The warnings of all schedulers before such a run, as planned. UserError, naming schedulers, for
/// times that cannot be placed in the run.
std::vector<std::string> check(const std::vector<std::shared_ptr<Scheduler>>& schedulers,
                               const RunLength& run_length, double scale_schedule_ratio = 1);

/// max_duration * ratio, rounded down to a whole number of its unit (seconds are not rounded).
/// UserError if nothing is left.
Time scale_duration(const Time& max_duration, double ratio);

/// One of a schedule's times, with the name of its parameter.
struct NamedTime {
  std::string key;
  Time time;
};

/// The axis of a scheduler: batches; or seconds, where the run has a limit in seconds and some of
/// the scheduler's times are seconds or fractions of the run.
class TimeAxis {
 public:
  /// times: all of the scheduler's. at_epochs: `now` counts as the start of its epoch.
  TimeAxis(const Timestamp& now, const RunLength& run_length, double scale_schedule_ratio,
           const std::vector<NamedTime>& times, bool at_epochs);

  double now() const { return now_; }
  /// `time` in whole batches (or seconds); scaled: multiplied by SSR, unless it is a fraction of
  /// the run.
  double length(const Time& time, bool scaled = true) const;
  /// length(), at least one batch.
  double period(const Time& time) const;
  /// `length` rounded down to whole batches; seconds stay.
  double whole(double length) const;
  double run() const;  ///< length of the whole run; infinite where its batches are unknown

 private:
  const RunLength& run_length_;
  double ratio_, now_;
  bool seconds_;
};

}  // namespace composer
