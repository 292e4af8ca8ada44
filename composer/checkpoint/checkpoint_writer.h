// Writes checkpoints while training goes on: the training thread takes a copy of the tensors, a
// thread behind it sums up, writes, flushes and renames.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "composer/checkpoint/checkpoint.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// What came of a checkpoint.
struct SaveOutcome {
  std::string name;         ///< "ep3-ba144"
  std::string problem;      ///< why there is none; empty: it is whole and on the disk
  bool not_finite = false;  ///< the problem is that its weights are not
  int64_t rank = 0;         ///< whose problem it is
  bool best = false;        ///< it was to be marked as the best
};

/// One checkpoint at a time. Several ranks write one together, each its files: all make the same
/// calls, in the training thread, at the same time. Once all have written theirs, the first rank
/// adds the manifest and gives the checkpoint its place. Nothing is left of one that fails.
class CheckpointWriter {
 public:
  struct Options {
    bool behind = true;           ///< false: nothing is copied, wait() follows start()
    int64_t newest_to_keep = -1;  ///< older ones are deleted, but for the best; -1: none is
  };
  struct Plan {
    bool replace = false;  ///< a whole checkpoint of that name too, which otherwise stays as it is
    bool best = false;     ///< `best` is to point to it
  };

  /// folder: that of the checkpoints, which all ranks see.
  CheckpointWriter(std::filesystem::path folder, Ranks ranks, Options options);
  /// give_up(), with nobody to tell.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins to write; the one before must be over. The tensors may change once this has returned,
  /// if the writing is done behind.
  void start(const Checkpoint& checkpoint, Plan plan);

  /// Whether one is under way; the same on all ranks.
  bool busy() const { return job_ != nullptr; }
  /// What came of the one under way, once it is over: told once. A few calls, one a batch say, may
  /// be needed to bring that about where there are several ranks.
  std::optional<SaveOutcome> poll();
  /// The same, and waits for it; nothing where none is under way.
  std::optional<SaveOutcome> wait();

  /// For a run that fails, whose ranks may not answer any more: finishes the one under way where
  /// this is the only rank, removes it otherwise. RunError when it could not be written.
  void give_up();

 private:
  struct Job;
  class HostCopies;

  /// Several ranks answer each other while they write.
  bool in_a_thread() const { return options_.behind || !ranks_.alone(); }
  void begin_together(Job& job);
  void commit(Job& job) const;
  /// Waits for what is under way here and on the other ranks, and goes on to what is next.
  std::optional<SaveOutcome> advance();

  std::filesystem::path folder_;
  Ranks ranks_;
  Options options_;
  std::unique_ptr<HostCopies> copies_;
  std::unique_ptr<Job> job_;
};

}  // namespace composer
