// Reading samples before the loader's threads come to them, while storage is slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "data/loading/batch_slot.h"
#include "data/loading/sample_cursor.h"
#include "data/samples/source.h"

namespace composer {

struct ReadAheadLimits {
  uint64_t bytes = uint64_t{128} << 20;  ///< that are read and not yet used
  size_t samples = 1024;                 ///< likewise, of a source by_sample
  size_t threads = 256;
  /// Seconds, and one a GB, that a read may take where nobody need read ahead; negative: always do.
  double quick = 1e-4;
};

/// A mean of reads' waits in seconds, moved by one: the last `weight` or so count. One that is far
/// off alone, of a thread that had lost its processor or a file that is quick to read for its size,
/// does not decide.
double moved_wait(double mean, double wait, const ReadAheadLimits& limits, int weight);

/// Stands between the order, from which it knows what will be wanted, and the source, which knows
/// how bytes come. Where the loader's threads find their bytes quickly it does nothing, and has no
/// threads. What its own threads cannot read the loader's read themselves, and find out why.
class ReadAhead {
 public:
  virtual ~ReadAhead() = default;

  // For the loader.

  /// Forgets what was read; goes on from this batch, and returns its BatchSlot::sequence.
  virtual int64_t restart(int64_t epoch, int64_t batch) = 0;
  /// Samples of this epoch are wanted.
  virtual void ask(int64_t epoch) = 0;
  /// No samples are wanted for a while.
  virtual void rest() {}
  /// None are wanted any more: nobody who waits for samples here waits for a store.
  virtual void leave() = 0;

  // For its threads, each of which has a Visit of its own.

  struct Visit {
    int64_t tasks = 0;
    int64_t faults = -1;  ///< of the thread's life
  };

  virtual void begin(const Task& task) = 0;
  /// Before the task's sample at this place is opened with the scratch. Throws RunError as open()
  /// does.
  virtual void bring(const Task& task, int64_t place, int64_t sample, ReadScratch& scratch) = 0;
  /// None of the task's samples will be asked for any more.
  virtual void end(const Task& task, Visit& visit) = 0;
};

struct ReadAheadPlan {
  const Source& source;
  ReadAheadLimits limits;
  int64_t window_pages = 0;  ///< that are read whole, a window ahead; 0: single samples
  bool cold = false;         ///< the system is to forget each sample before it is read
};

/// Null for a source in memory. The source, and what the lookahead is made of, must outlive it.
std::unique_ptr<ReadAhead> make_read_ahead(const ReadAheadPlan& plan, const Sampler& sampler,
                                           const LoaderOptions& options, int64_t batches,
                                           bool all_epochs);

}  // namespace composer
