// Learning-rate schedules: pure functions of where a run stands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"

namespace composer {

/// What a recipe's `schedulers` name. Several multiply. Keeps no state: resuming needs only the
/// time.
///
/// scale_schedule_ratio (SSR) is the factor by which the run was shortened: schedule.max_duration
/// is the shortened one (scale_duration), and a scheduler shortens its own times in ep, ba and sp
/// likewise; shares (dur) follow by themselves.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// What the recipe's learning rate is multiplied with for the batch that starts at `now`.
  virtual double multiplier(const Timestamp& now, const RunLength& run_length,
                            double scale_schedule_ratio) const = 0;

  /// What a user should be warned of before such a run, one line each. UserError for times that
  /// this run cannot place. Lines start with the parameter: "t_warmup: ...".
  virtual std::vector<std::string> check(const RunLength& run_length,
                                         double scale_schedule_ratio) const {
    multiplier({}, run_length, scale_schedule_ratio);
    return {};
  }
};

/// The product over all schedulers in the schedule as planned; 1 without any.
double multiplier(const std::vector<std::shared_ptr<Scheduler>>& schedulers, const Timestamp& now,
                  const RunLength& run_length, double scale_schedule_ratio = 1);

/// What all of them warn of before such a run, as planned. UserError, naming schedulers, for times
/// that the run cannot place.
std::vector<std::string> check(const std::vector<std::shared_ptr<Scheduler>>& schedulers,
                               const RunLength& run_length, double scale_schedule_ratio = 1);

/// max_duration * ratio, cut to a whole number of its unit (seconds are not cut). UserError if
/// nothing is left.
Time scale_duration(const Time& max_duration, double ratio);

/// The axis on which a scheduler measures: batches; or seconds, where the run has a limit in
/// seconds and the scheduler's times are seconds or shares of the run.
class TimeAxis {
 public:
  /// times: all of the scheduler's. at_epochs: `now` is the start of the current epoch.
  TimeAxis(const Timestamp& now, const RunLength& run_length, double scale_schedule_ratio,
           const std::vector<Time>& times, bool at_epochs);

  double now() const { return now_; }
  /// Whole batches (or seconds) in `time`; scaled: times SSR, unless it is a share of the run.
  double length(const Time& time, bool scaled = true) const;
  /// length(), at least one batch.
  double period(const Time& time) const;
  /// `length` cut to whole batches; seconds stay.
  double whole(double length) const;
  double run() const;  ///< the whole run; infinite when its batches are not known

 private:
  const RunLength& run_length_;
  double ratio_, now_;
  bool seconds_;
};

}  // namespace composer
