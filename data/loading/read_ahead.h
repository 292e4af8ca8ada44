// Reading samples before the loader's threads come to them, while storage is slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/loading/sample_cursor.h"
#include "data/loading/slot_queue.h"
#include "data/samples/source.h"

namespace composer {

struct ReadAheadLimits {
  uint64_t bytes = uint64_t{128} << 20;  ///< most bytes that are read and not yet used
  size_t samples = 1024;  ///< most samples of a source by_sample that are read and not yet used
  size_t threads = 256;   ///< most reader threads
  /// Reading ahead starts when a read takes longer than this many seconds plus one second per GB;
  /// negative: the loader always reads ahead.
  double quick = 1e-4;
};

/// A running mean of how long reads waited, in seconds, after one more wait: about the last
/// `weight` waits count. Waits are clipped to 4 x limits.quick, so that a single outlier (a thread
/// that lost its processor, a large file) does not decide.
double moved_wait(double mean, double wait, const ReadAheadLimits& limits, int weight);

/// Sorts the extents, and joins extents that overlap or are at most `gap` bytes apart. No extent of
/// the result is longer than `most`.
std::vector<Extent> merged(std::vector<Extent> extents, uint64_t gap, uint64_t most);

/// Reads the samples that the order will ask for next from the source, on threads of its own. While
/// the loader's threads find their bytes quickly, there are no such threads. A sample that these
/// threads cannot read is read again by the loader's thread, which then reports the error.
class ReadAhead {
 public:
  virtual ~ReadAhead() = default;

  // For the loader.

  /// Drops what was read, goes on from this batch, and returns the batch's BatchSlot::sequence.
  virtual int64_t restart(int64_t epoch, int64_t batch) = 0;
  /// The loader wants samples of this epoch.
  virtual void ask(int64_t epoch) = 0;
  /// The loader wants no samples for a while.
  virtual void rest() {}
  /// The loader ends: nobody waits for a store any more.
  virtual void leave() = 0;

  // For the loader's threads, each of which has a Visit of its own.

  struct Visit {
    int64_t tasks = 0;
    int64_t faults = -1;  ///< major page faults of the thread so far
  };

  virtual void begin(const Task& task) = 0;
  /// Called before the task's sample at this offset is opened with the scratch. Throws RunError as
  /// Source::open() does.
  virtual void bring(const Task& task, int64_t offset, int64_t sample, ReadScratch& scratch) = 0;
  /// The thread asks for no more samples of the task.
  virtual void end(const Task& task, Visit& visit) = 0;
};

/// The source, sampler and options must outlive the ReadAhead.
struct ReadAheadPlan {
  const Source& source;
  const Sampler& sampler;
  const LoaderOptions& options;
  int64_t batches = 0;      ///< batches of an epoch
  bool all_epochs = false;  ///< epochs are read before they are asked for
  ReadAheadLimits limits;
  int64_t window_pages = 0;  ///< whole pages are read, one window ahead; 0: single samples
};

/// Null for a source in memory.
std::unique_ptr<ReadAhead> make_read_ahead(const ReadAheadPlan& plan);

/// The reader of a source by_sample: fetched samples are handed to the thread that wants them.
std::unique_ptr<ReadAhead> make_samples_ahead(const ReadAheadPlan& plan);

/// The reader of a source by_range: bytes are brought into memory where they are mapped.
std::unique_ptr<ReadAhead> make_ranges_ahead(const ReadAheadPlan& plan);

}  // namespace composer
