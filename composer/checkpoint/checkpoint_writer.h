// Writes checkpoints while training goes on: the training thread copies the tensors; a background
// thread computes checksums, writes, flushes and renames.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "composer/checkpoint/checkpoint.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// The outcome of writing a checkpoint.
struct SaveOutcome {
  std::string name;         ///< "ep3-ba144"
  std::string problem;      ///< the error; empty: the checkpoint is complete and on the disk
  bool not_finite = false;  ///< the problem is weights that are not finite
  int64_t rank = 0;         ///< the rank with the problem
  bool best = false;        ///< the checkpoint was to be marked as the best
};

/// Writes one checkpoint at a time. Several ranks write one together, each its own files: all ranks
/// make the same calls, in the training thread, at the same time. Once all have written their
/// files, the first rank adds the manifest and renames the folder. A failed checkpoint leaves no
/// files.
class CheckpointWriter {
 public:
  struct Options {
    bool behind = true;           ///< false: start() copies nothing, and wait() must follow it
    int64_t newest_to_keep = -1;  ///< older checkpoints but the best are deleted; -1: all are kept
  };
  struct Plan {
    bool replace = false;  ///< a complete checkpoint of that name is replaced; otherwise it is kept
    bool best = false;     ///< `best` will point to the checkpoint
  };

  /// folder: the folder of the checkpoints, which all ranks see.
  CheckpointWriter(std::filesystem::path folder, Ranks ranks, Options options);
  /// Calls give_up(), and ignores its errors.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins to write a checkpoint; the previous one must be finished. With Options::behind the
  /// tensors may change once this has returned.
  void start(const Checkpoint& checkpoint, Plan plan);

  /// Whether a checkpoint is being written; the same on all ranks.
  bool busy() const { return job_ != nullptr; }
  /// The outcome, once, after the checkpoint is finished. With several ranks it may take a few
  /// calls (such as one per batch) to finish.
  std::optional<SaveOutcome> poll();
  /// Waits for the outcome; nothing if no checkpoint is being written.
  std::optional<SaveOutcome> wait();

  /// Ends the writing in a failed run, whose ranks may not answer any more: finishes the checkpoint
  /// of a single rank, and removes that of several ranks. RunError if it could not be written.
  void give_up();

 private:
  struct Job;
  class HostCopies;

  /// With several ranks the training thread must answer the others while files are written.
  bool in_a_thread() const { return options_.behind || !ranks_.alone(); }
  void begin_together(Job& job);
  void commit(Job& job) const;
  /// Waits for the current stage here and on the other ranks, and begins the next one.
  std::optional<SaveOutcome> advance();

  std::filesystem::path folder_;
  Ranks ranks_;
  Options options_;
  std::unique_ptr<HostCopies> copies_;
  std::unique_ptr<Job> job_;
};

}  // namespace composer
