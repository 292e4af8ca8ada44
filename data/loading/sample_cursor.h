// Which samples a loader's threads come to, in order: a walk that other threads do ahead of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/loading/loader_options.h"
#include "base/rank_environment.h"
#include "data/samples/order.h"

namespace composer {

/// A rank's samples of one batch.
struct EpochSlice {
  int64_t first = 0;  ///< position of the first one in the epoch
  Share of_batch{};   ///< its place in the batch of all ranks
};

/// Of a batch of an epoch of so many samples.
EpochSlice share_of(int64_t batch, int64_t epoch_samples, const LoaderOptions& options);

/// Hands out the samples of a rank's batches, one after another, epoch after epoch. Each has a
/// number in the sequence, greater than all that were before a restart. All but pass() and passed()
/// are called by one thread at a time.
class SampleCursor {
 public:
  struct Next {
    int64_t sequence, sample;
  };

  /// sampler and options must outlive this. all_epochs: it does not wait for ask().
  SampleCursor(const Sampler& sampler, const LoaderOptions& options, int64_t batches_per_epoch,
               bool all_epochs);

  /// Goes on from this batch; returns the number of its first sample. A batch behind the last one
  /// is the next epoch's first.
  int64_t restart(int64_t epoch, int64_t batch);
  /// Samples of this epoch are wanted. Whether more are than before.
  bool ask(int64_t epoch);

  /// The threads have taken all samples with numbers below this.
  void pass(int64_t sequence);
  int64_t passed() const { return passed_.load(); }

  /// The next sample that was not passed; nothing where its epoch is not wanted yet.
  std::optional<Next> next();

 private:
  bool find_batch();
  void skip_to(int64_t sequence);

  const Sampler& sampler_;
  const LoaderOptions& options_;
  const int64_t batches_;
  const bool all_epochs_;
  std::atomic<int64_t> passed_{0};

  int64_t restarts_ = 0;
  int64_t last_epoch_ = 0;  // that is wanted
  int64_t epoch_ = 0, batch_ = 0;
  int64_t place_ = 0;  // of the next sample in share_, that of batch_
  EpochSlice share_;
  int64_t sequence_ = 0;  // of the next sample
  EpochOrder order_;
  int64_t order_epoch_ = -1;
};

}  // namespace composer
