// The parts of a training run around its loop: folder, lock, checkpoints, uploads, requests,
// summary, and the order in which the run ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files/run_folder.h"
#include "base/run_context.h"
#include "composer/checkpoint/checkpoint_store.h"
#include "composer/checkpoint/checkpoint_writer.h"
#include "composer/logging/logger.h"
#include "composer/logging/sinks.h"
#include "composer/loop/engine.h"
#include "composer/loop/state.h"
#include "composer/recipe/options.h"
#include "composer/run/profiler.h"
#include "composer/run/run_requests.h"
#include "composer/run/starting_point.h"
#include "nn/network/metrics.h"

namespace composer {

/// How long a run has trained, and how fast.
class RunClock {
 public:
  /// Starts the clock at `seconds` of an earlier process.
  void start(double seconds) { begin_ = steady_seconds() - seconds, started_ = true; }
  bool started() const { return started_; }
  /// Seconds since the run's beginning, evaluation included.
  double seconds() const { return steady_seconds() - begin_; }

  /// Counts a training batch of this process. The first batches are not used to measure speed.
  /// waited: seconds of the batch that were spent waiting for its data.
  void count(int64_t samples, double seconds, double waited) {
    if (batches_++ == warmup_batches) samples_ = 0, seconds_ = 0, waited_ = 0;
    samples_ += samples, seconds_ += seconds, waited_ += waited;
  }
  /// Adds time of training batches outside count().
  void add(double seconds) { seconds_ += seconds; }

  int64_t batches() const { return batches_; }
  /// Speed of training without evaluation; 0 before the first batch.
  double samples_per_second() const {
    return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0;
  }
  /// Share of the training time that was spent waiting for data; empty for the first batches.
  std::optional<double> wait_fraction() const {
    if (batches_ <= warmup_batches || seconds_ <= 0) return {};
    return waited_ / seconds_;
  }

 private:
  static constexpr int64_t warmup_batches = 10;

  double begin_ = 0;  ///< steady-clock seconds at second 0 of the run
  bool started_ = false;
  int64_t batches_ = 0, samples_ = 0;
  double seconds_ = 0, waited_ = 0;
};

/// All ranks make the same calls in the same order. Only the first rank has the lock, requests and
/// uploads, and writes the summary. Every rank writes its part of checkpoints and its own traces.
class RunSession {
 public:
  /// The functions of the loop that run() calls, in this order, each once. An exception ends the
  /// sequence.
  struct Loop {
    /// Calls open(), and trains until the run's length is reached, a stop is requested, or signal()
    /// is not 0.
    std::function<void()> train;
    /// Fires fit_end, unless a signal ended training, and begins to save the last checkpoint.
    std::function<void()> finish;
    /// Waits for the device and writes all records. RunError if a loss is not finite.
    std::function<void()> flush;
  };

  /// Keeps references to all arguments except `folder`. Adds to `logger` the sink that collects
  /// the summary's metrics.
  RunSession(RunFolder folder, const TrainerOptions& options, const RunContext& context,
             State& state, Engine& engine, Logger& logger, const RunClock& clock);

  const RunFolder& folder() const { return folder_; }

  /// Finds what the run starts from (find_starting_point()). A training run with autoresume claims
  /// its folder before it looks there, and keeps it until run() is over.
  StartingPoint find_start();
  /// Notes that the state was loaded from a checkpoint in the run's folder.
  void resumed() { saved_batch_ = state_.time.batch; }
  /// True if the run was resumed at or after its max_duration.
  bool nothing_left() const;

  /// Claims the folder, trains, and ends the run. UserError if another process has the folder.
  /// Signals are noted from here on. A second one, half a second later or more, stops the process
  /// at once; SIGINT or SIGTERM after SIGHUP or SIGUSR1 counts as the first (InterruptGuard).
  ///
  /// After SIGTERM the loop finishes the batch under way, and the epoch's end if that was its last
  /// batch. An evaluation breaks off. agree() tells all ranks, and Loop::train returns. The run
  /// then ends in the order below, with three differences: there is no fit_end and no last
  /// evaluation (a resumed run does them); a failed upload is only a warning; and the status is
  /// "interrupted". Summary::signal becomes the program's exit status, 128 + signal.
  ///
  /// The order after Loop::train has returned:
  /// 1. The trace under way is written. It holds training steps only.
  /// 2. Loop::finish. It begins the last checkpoint after fit_end, where algorithms may change
  ///    weights.
  /// 3. The last checkpoint is waited for. Only a complete one is uploaded.
  /// 4. Uploads are waited for. The other ranks wait with the first one and ask it every second, so
  ///    that their time limit does not pass. A failed upload throws if on_save_error is "error".
  /// 5. Requests are answered. The answer tells whether there is a last checkpoint.
  /// 6. Loop::flush. The summary needs the last records, and a bad loss must fail the run before a
  ///    summary says "completed".
  /// 7. The summary is written (first rank).
  /// 8. Callbacks and sinks are told of the end. Sinks may read the summary: the report does.
  /// 9. The lock is released. From then on another process may write to the folder.
  ///
  /// The order after Loop::train or one of the steps above has thrown. The exception is thrown
  /// again at the end; a step that fails only gives a warning, and the next step follows.
  /// 1. Communication is aborted. Otherwise the device would wait for other ranks in step 3. The
  ///    other ranks then get a LostRankError, and end in this order too.
  /// 2. The trace under way is written as far as it got.
  /// 3. Records are written. The summary needs them.
  /// 4. The checkpoint under way is finished where there is one rank, and removed where there are
  ///    several: some may have stopped writing.
  /// 5. The summary is written (first rank), on a full disk into room that the lock's file kept.
  /// 6. Callbacks and sinks are told of the end.
  /// 7. Uploads are waited for, a minute at most or until a signal. This comes after everything
  ///    that goes to the disk. A warning names the checkpoints that were not uploaded.
  /// 8. The folder is removed if this run made it and a UserError came before the first batch. The
  ///    corrected command can use its name.
  /// 9. The lock is released.
  Summary run(const Loop& loop);

  /// Opens the profiler, writes `recipe` unless it is empty, and opens the checkpoint writer and
  /// uploads. UserError on all ranks where save_remote has checkpoints of another run of this name.
  void open(const std::string& recipe);

  /// May be called from open() until Loop::train returns.
  Profiler& profiler() { return *profiler_; }
  /// Takes what other processes ask for, at most once a second.
  void look_for_requests() { requests_.look(engine_.control()); }
  /// Tells all ranks which signals, stops, checkpoints and traces any of them was asked for.
  void agree();
  /// The signal that some rank has received and all ranks act upon; 0 without one.
  int signal() const { return signal_; }

  /// Takes the metrics of an evaluation. Returns whether this batch is to be saved as the best one.
  /// If it has been saved already, marks its checkpoint as the best instead.
  bool evaluated(const std::vector<std::pair<std::string, double>>& metrics);
  /// The best value of save_best's metric.
  BestMetric& best() { return best_; }

  /// Whether this batch is to be saved: the run has a folder, and the batch has not been saved or
  /// `replace` is true.
  bool saves(bool replace) const;
  /// Begins to write a checkpoint; with save_async: false waits for it. No other may be under way.
  void save(const Checkpoint& checkpoint, CheckpointWriter::Plan plan);
  /// Checks the checkpoint under way and the uploads without waiting. A failure is a warning or a
  /// RunError, as on_save_error and on_nan say; another rank's failure is a LostRankError.
  void check_saves();
  /// Waits for the checkpoint under way. Fails as check_saves() does.
  void finish_save();
  /// Answers requests for a checkpoint, once the one under way is over.
  void answer_checkpoint_requests();

 private:
  void check_store() const;
  void open_profiler();
  void open_uploads();
  void check_uploads();
  void finish_uploads();
  void give_up_uploads(const RunEnd& end, bool tells);
  /// Answers those who asked for the checkpoint, and uploads it. Fails as check_saves() does.
  void conclude(const std::optional<SaveOutcome>& outcome);
  /// The answer to a request for this batch's checkpoint.
  Answer saved() const;
  /// Ends a run whose exception is being handled, as run() says.
  void fail(const Mailbox* lock);
  Summary summarize(const RunEnd& end) const;
  /// True if the folder's earlier summary is out of date and a new one must be written.
  bool summary_is_due() const;
  void tell_of_end(const RunEnd& end) noexcept;

  RunFolder folder_;
  const TrainerOptions& options_;
  const RunContext& context_;
  State& state_;
  Engine& engine_;
  Logger& logger_;
  const RunClock& clock_;
  std::shared_ptr<SummarySink> summary_sink_;

  std::unique_ptr<Mailbox> lock_;           ///< held from find_start() to run()
  RunRequests requests_;                    ///< set in run()
  std::optional<Profiler> profiler_;        ///< set from open() on
  std::optional<CheckpointWriter> writer_;  ///< set from open() on, if the run has a folder
  /// Set from open() on, on the first rank with save_remote.
  std::unique_ptr<CheckpointUploads> uploads_;
  std::optional<Summary> earlier_;  ///< the folder's summary when run() began
  bool evaluated_ = false;          ///< whether run() has evaluated
  int signal_ = 0;
  /// Batch of the last checkpoint that is complete or under way; -1 before the first.
  int64_t saved_batch_ = -1;
  std::string save_problem_;       ///< why the last failed checkpoint failed
  BestMetric best_, best_before_;  ///< the best now, and before the last best checkpoint was begun
};

}  // namespace composer
