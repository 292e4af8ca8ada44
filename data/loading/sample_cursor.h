// A cursor over the samples that a loader's threads will ask for, for threads that read ahead.
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
  Share of_batch{};   ///< the slice within the batch of all ranks
};

/// The slice of this rank of a batch, in an epoch of `epoch_samples` samples.
EpochSlice slice_of(int64_t batch, int64_t epoch_samples, const LoaderOptions& options);

/// Yields the samples of a rank's batches, one after another, epoch after epoch. Each sample has a
/// number in the sequence, which is greater than all numbers before a restart. One thread at a time
/// may call the functions other than pass() and passed().
class SampleCursor {
 public:
  struct Next {
    int64_t sequence, sample;
  };

  /// sampler and options must outlive this. all_epochs: the cursor does not wait for ask().
  SampleCursor(const Sampler& sampler, const LoaderOptions& options, int64_t batches_per_epoch,
               bool all_epochs);

  /// Goes on from this batch, and returns the number of its first sample. The batch after the last
  /// one is the next epoch's first.
  int64_t restart(int64_t epoch, int64_t batch);
  /// Samples of this epoch are wanted. Returns whether that makes more samples available.
  bool ask(int64_t epoch);

  /// The loader's threads have taken all samples with numbers below `sequence`.
  void pass(int64_t sequence);
  int64_t passed() const { return passed_.load(); }

  /// The next sample that was not passed; nullopt where its epoch is not wanted yet.
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
  int64_t last_epoch_ = 0;  // the last epoch that is wanted
  int64_t epoch_ = 0, batch_ = 0;
  int64_t offset_ = 0;    // of the next sample in slice_
  EpochSlice slice_;      // of batch_
  int64_t sequence_ = 0;  // number of the next sample
  EpochOrder order_;
  int64_t order_epoch_ = -1;
};

}  // namespace composer
