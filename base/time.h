// Training time: amounts such as "90ep" and where a run stands.
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

  /// Nothing when `text` is no time; `problem`, if given, then says why.
  static std::optional<Time> parse(std::string_view text, std::string* problem = nullptr);
  std::string str() const;
  /// Why no text is this time ("must not be negative"); "" if one is.
  std::string problem() const;
  bool operator==(const Time&) const = default;
};

/// What is wrong with a time that something happens every so often, or "": it must be in ep, ba or
/// sp.
std::string check_interval(const std::string& key, const Time& time);

/// The same for a Repetition, which any unit will do for; dur up to 1.
std::string check_repetition(const std::string& key, const Time& time);

/// Where a run stands: how much is done. Counts are over all ranks.
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

/// The length of a run, everything that converts times to batches.
struct RunLength {
  int64_t batches_per_epoch = 1;
  int64_t samples_per_epoch = 1;
  int64_t batch_size = 1;
  Time max_duration;                           ///< where the run ends
  std::optional<Time> planned = std::nullopt;  ///< the recipe's length; none: max_duration
  /// Of a run that went on with another batch size or another number of samples, by take_up():
  /// batches counted beyond those that its epochs, and what its length is counted in, have by this
  /// schedule. May be negative.
  int64_t ahead_of_epochs = 0, ahead_of_length = 0;

  /// The same run at its planned length, which learning rates follow even where it ends early.
  RunLength as_planned() const;

  /// The run goes on from there.
  void take_up(const Timestamp& now);
  /// Batches of the run's length that are done, by this schedule.
  int64_t position(const Timestamp& now) const { return now.batch - ahead_of_length; }

  /// Batches in `time`, not rounded; dur counts in max_duration. A time in seconds has no such
  /// number: throws UserError naming it.
  double batches(const Time& time) const;
  /// Batches in the whole run, rounded up; nothing for a limit in seconds.
  std::optional<int64_t> total_batches() const;
  /// Share of the run that is done, in [0, 1], counted in batches (seconds for a limit in seconds).
  double elapsed(const Timestamp& now) const;
  bool finished(const Timestamp& now) const;
  /// Where a run stands after `batch` batches.
  Timestamp at_batch(int64_t batch) const;
  /// Whether something that happens every `interval` is due after the batch (or, with epoch_end,
  /// the epoch) that ended `now`. dur counts in the planned length. Seconds are never due, nor dur
  /// where the run's length is in seconds: see Repetition. 0 is never due.
  bool due(const Time& interval, const Timestamp& now, bool epoch_end) const;
};

/// What a run does again and again, as evaluations and checkpoints. An interval in seconds has
/// passed, after the first batch that it has, since the last time was over.
class Repetition {
 public:
  explicit Repetition(Time interval) : interval_(interval) {}

  const Time& interval() const { return interval_; }
  /// As Schedule::due, in all units.
  bool due(const RunLength& run_length, const Timestamp& now, bool epoch_end) const;
  /// It was done, which was over at so many seconds of the run's clock.
  void done_at(double seconds) { seconds_ = seconds; }
  double done_at() const { return seconds_; }

 private:
  Time interval_;
  double seconds_ = 0;
};

}  // namespace composer
