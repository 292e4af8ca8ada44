// Logs the time that each part of a run takes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "composer/loop/algorithm.h"
#include "nn/profiling/timer.h"

namespace composer {

/// Logs time/<part>: seconds of the training thread since the values were last logged, so that
/// their sums over a log are those of the run. Parts are the loop's ranges by name (dataloader,
/// which is the wait for a batch, forward, backward, optimizer, gradient sum, replay, checkpoint
/// and others), algorithms/<name>, callbacks/<name>, evaluation as a whole, and other for the rest.
/// A part excludes the parts inside it. Pending work of a GPU is in no part; a wait for the GPU
/// counts for the part that waits. Values are logged at the end of each epoch and evaluation and of
/// the last batch, and in between once a minute. A run that is interrupted or fails logs them with
/// its last complete batch, unless a batch fails half-way: its values are dropped. To be the last
/// callback of the run.
class RunTimes : public Callback {
 public:
  /// Names of the run's algorithms and callbacks, this callback included.
  RunTimes(std::set<std::string> algorithms, std::set<std::string> callbacks)
      : algorithms_(std::move(algorithms)), callbacks_(std::move(callbacks)) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void epoch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;
  void run_end(const State& state, const RunEnd& end) override;

 private:
  using Seconds = std::map<std::string, double>;

  /// Logs the seconds since the beginning of the open record, which several evaluations may share.
  void log_all(Logger& logger);
  void leave_evaluation();
  /// Seconds since fit_start, by the names of time/... values.
  Seconds parts() const;
  std::string part_of(const std::string& range) const;

  std::set<std::string> algorithms_, callbacks_;
  std::optional<Timer> timer_;                 ///< set from fit_start to run_end
  Seconds logged_;                             ///< parts() when values were last logged
  Seconds counted_from_;                       ///< parts() at the beginning of the last record
  Seconds in_evaluation_, before_evaluation_;  ///< seconds by range
  bool in_batch_ = false, in_an_evaluation_ = false;
  int64_t record_ = -1;    ///< Logger::commits() when values were last logged
  bool unlogged_ = false;  ///< batches have ended since values were last logged
  double evaluation_ = 0;  ///< seconds of all evaluations so far
  double begin_ = 0, logged_at_ = 0, evaluation_begin_ = 0;  ///< steady-clock seconds
};

}  // namespace composer
