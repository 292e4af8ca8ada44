// Built-in callbacks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/params/params.h"
#include "base/time.h"
#include "composer/loop/algorithm.h"
#include "nn/profiling/timer.h"

namespace composer {

/// The speed of the last training batches. A batch's time is that from the end of the previous
/// batch to its own end. suspend() and resume() leave evaluation out.
class BatchRate {
 public:
  using Clock = std::function<double()>;

  /// window_size: the number of batches that the rate is averaged over, at least 1; at the start
  /// there are fewer.
  explicit BatchRate(int64_t window_size, Clock clock = steady_seconds)
      : window_size_(window_size), clock_(std::move(clock)) {}

  /// Starts the clock of the first batch; later batches begin where the previous one ended.
  void batch_start() {
    if (last_ < 0) last_ = clock_();
  }

  /// amount: the batch's amount of work, in the rate's unit. Returns the batch's seconds.
  double batch_end(double amount) {
    const double end = clock_();
    const double seconds = end - std::exchange(last_, end);
    window_.push_back({seconds, amount});
    sum_.seconds += seconds, sum_.amount += amount;
    if (std::ssize(window_) > window_size_) {
      sum_.seconds -= window_.front().seconds, sum_.amount -= window_.front().amount;
      window_.pop_front();
    }
    return seconds;
  }

  void suspend() { suspended_ = clock_(); }
  void resume() {
    if (last_ >= 0) last_ += clock_() - suspended_;
  }

  /// The amount per second; 0 if no time has passed.
  double per_second() const { return sum_.seconds > 0 ? sum_.amount / sum_.seconds : 0; }

 private:
  struct Batch {
    double seconds, amount;
  };

  int64_t window_size_;
  Clock clock_;
  std::deque<Batch> window_;
  Batch sum_{0, 0};
  double last_ = -1;  ///< the end of the last batch; negative: no batch has begun
  double suspended_ = 0;
};

/// Logs, over the last window_size batches and without evaluation, throughput/samples_per_sec and
/// time/wait_fraction, the share of the time that the loop waited for data. At each epoch's end it
/// logs wall_clock/train, the seconds of training so far.
class SpeedMonitor : public Callback {
 public:
  struct Params {
    int64_t window_size = 100;
    void fields(auto&& f) {
      f("window_size", window_size, "batches that rate and wait are taken over", at_least(1));
    }
  };
  explicit SpeedMonitor(Params params) : samples_(params.window_size), waits_(params.window_size) {}

  void batch_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void epoch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;
  void fit_end(const State& state, Logger& logger, RunControl& control) override;

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  double waited() const { return timer_->here("dataloader").seconds; }

  std::optional<Timer> timer_;  ///< set at the first batch
  BatchRate samples_, waits_;   ///< samples, and seconds of waiting, per second
  double last_waited_ = 0;      ///< waited() at the end of the last batch
  double eval_waited_ = 0;
  double training_ = 0;
  int64_t last_sample_ = 0;
};

/// Logs lr, the learning rate of each batch.
class LrMonitor : public Callback {
 public:
  void batch_start(const State& state, Logger& logger, RunControl& control) override;
};

/// Requests a checkpoint every save_interval, in addition to the recipe's own key of that name.
class CheckpointSaver : public Callback {
 public:
  struct Params {
    Time save_interval{1, TimeUnit::epoch};
    void fields(auto&& f) {
      f("save_interval", save_interval, "how often to save, in ep, ba, sp, sec or dur; 0 = never");
    }
    std::string check() const;
  };
  explicit CheckpointSaver(Params params) : times_(params.save_interval) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_checkpoint(const State& state, Logger& logger, RunControl& control) override;
  void epoch_checkpoint(const State& state, Logger& logger, RunControl& control) override;

 private:
  void save_if_due(const State& state, RunControl& control, bool epoch_end);

  Repetition times_;
};

/// Ends the run once a metric of the evaluation has not improved for longer than `patience`.
class EarlyStopper : public Callback {
 public:
  struct Params {
    std::string monitor = "metrics/eval/Accuracy";
    double min_delta = 0;
    Time patience{1, TimeUnit::epoch};
    void fields(auto&& f) {
      f("monitor", monitor, "metric of the evaluation; of losses the smaller is the better");
      f("min_delta", min_delta, "what counts as an improvement is more than this", at_least(0));
      f("patience", patience, "how long it may go without improvement, in ep, ba or sp");
    }
    std::string check() const;
  };
  explicit EarlyStopper(Params params) : params_(std::move(params)) {}

  void init(const State& state, Logger& logger, RunControl& control) override;
  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;
  void fit_end(const State& state, Logger& logger, RunControl& control) override;

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  Params params_;
  struct Best {
    double value;
    Timestamp time;
  };
  /// Requests a stop if the best value is older than `patience`.
  void stop_if_old(const State& state, RunControl& control);

  std::optional<Best> best_;
  bool stopped_ = false;  ///< the last evaluation requested a stop
};

/// Ends the run once a metric of the evaluation reaches `threshold`: from below, or from above if
/// smaller is better.
class ThresholdStopper : public Callback {
 public:
  struct Params {
    std::string monitor = "metrics/eval/Accuracy";
    double threshold = 0;
    void fields(auto&& f) {
      f("monitor", monitor, "metric of the evaluation; of losses the smaller is the better");
      f("threshold", threshold, "what is enough, for instance 0.94", required);
    }
    std::string check() const;
  };
  explicit ThresholdStopper(Params params) : params_(std::move(params)) {}

  void init(const State& state, Logger& logger, RunControl& control) override;
  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;
  void fit_end(const State& state, Logger& logger, RunControl& control) override;

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  bool reached() const;
  void stop_if_reached(RunControl& control) const;

  Params params_;
  std::optional<double> last_;  ///< the value of the last evaluation
};

/// Logs wall_clock/remaining_estimate, in seconds, after each batch but the first skip_batches of
/// this process. It extrapolates the time of the batches since then, evaluations and checkpoints
/// included. The terminal shows it too.
class RuntimeEstimator : public Callback {
 public:
  struct Params {
    int64_t skip_batches = 1;
    void fields(auto&& f) {
      f("skip_batches", skip_batches, "slow first batches of the process that say nothing",
        at_least(0));
    }
  };
  explicit RuntimeEstimator(Params params) : params_(params) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  Params params_;
  int64_t batches_ = 0;
  double begin_elapsed_ = 0, begin_seconds_ = 0;
};

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
