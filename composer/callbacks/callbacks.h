// Built-in callbacks.
#pragma once

#include <optional>
#include <string>

#include "base/params/params.h"
#include "base/time.h"
#include "composer/callbacks/batch_rate.h"
#include "composer/loop/algorithm.h"
#include "nn/network/metrics.h"
#include "nn/profiling/timer.h"

namespace composer {

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

}  // namespace composer
