// Training time: amounts such as "90ep", and the progress of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace composer {

enum class TimeUnit { epoch, batch, sample, second, duration };

/// An amount of training: "90ep", "1e3ba", "512sp", "30sec", "0.5dur" (share of max_duration). Only
/// sec and dur may have a fraction. A plain whole number means epochs.
struct Time {
  double value = 0;
  TimeUnit unit = TimeUnit::epoch;

  /// Nothing when `text` is no time; `problem`, unless null, then gets the reason.
  static std::optional<Time> parse(std::string_view text, std::string* problem = nullptr);
  std::string str() const;
  /// Why the value is invalid ("must not be negative"); "" for a valid one.
  std::string problem() const;
  bool operator==(const Time&) const = default;
};

/// What is wrong with `time` as an interval, or "": it must be in ep, ba or sp.
std::string check_interval(const std::string& key, const Time& time);

/// What is wrong with `time` as the interval of a Repetition, or "": any unit, dur up to 1.
std::string check_repetition(const std::string& key, const Time& time);

/// The progress of a run. Counts are over all ranks.
struct Timestamp {
  int64_t epoch = 0, batch = 0, sample = 0;
  int64_t batch_in_epoch = 0, sample_in_epoch = 0;
  double seconds = 0;  ///< wall time in the training loop

  void next_batch(int64_t samples) {
    ++batch, ++batch_in_epoch;
    sample += samples, sample_in_epoch += samples;
  }
  void next_epoch() { ++epoch, batch_in_epoch = 0, sample_in_epoch = 0; }
  bool operator==(const Timestamp&) const = default;
};

/// The length of a run. Converts times to batches.
struct RunLength {
  int64_t batches_per_epoch = 1;
  int64_t samples_per_epoch = 1;
  int64_t batch_size = 1;
  Time max_duration;                           ///< the run's end
  std::optional<Time> planned = std::nullopt;  ///< the recipe's length; none: max_duration
  /// Set by take_up(), for a run that resumed with another batch size or number of samples: the
  /// batches counted so far minus the batches that this schedule has for the same epochs, or for
  /// the same amount of max_duration's unit. May be negative.
  int64_t ahead_of_epochs = 0, ahead_of_length = 0;

  /// The same run at its planned length, which learning rates follow even where it ends early.
  RunLength as_planned() const;

  /// The run resumes at `now`.
  void take_up(const Timestamp& now);
  /// The number of batches of the run's length that are done, by this schedule.
  int64_t position(const Timestamp& now) const { return now.batch - ahead_of_length; }

  /// Batches in `time`, not rounded; dur counts in max_duration. A time in seconds has no such
  /// number: throws UserError naming it.
  double batches(const Time& time) const;
  /// Batches in the whole run, rounded up; nothing for a limit in seconds.
  std::optional<int64_t> total_batches() const;
  /// Share of the run that is done, in [0, 1], counted in batches (seconds for a limit in seconds).
  double elapsed(const Timestamp& now) const;
  bool finished(const Timestamp& now) const;
  /// The progress after `batch` batches.
  Timestamp at_batch(int64_t batch) const;
  /// Whether something that happens every `interval` is due after the batch (or, with epoch_end,
  /// the epoch) that ended `now`. dur counts in the planned length. Seconds are never due, nor dur
  /// where the run's length is in seconds: see Repetition. 0 is never due.
  bool due(const Time& interval, const Timestamp& now, bool epoch_end) const;
};

/// Something that a run repeats, such as evaluations and checkpoints. An interval in seconds counts
/// from the end of the last time, and is due after the first batch that ends beyond it.
class Repetition {
 public:
  explicit Repetition(Time interval) : interval_(interval) {}

  const Time& interval() const { return interval_; }
  /// RunLength::due() for all units.
  bool due(const RunLength& run_length, const Timestamp& now, bool epoch_end) const;
  /// Notes that it was done, and ended at `seconds` of the run's clock.
  void done_at(double seconds) { seconds_ = seconds; }
  double done_at() const { return seconds_; }

 private:
  Time interval_;
  double seconds_ = 0;
};

}  // namespace composer
