// The samples that a loader's threads will ask for, and reading them before, while storage is slow.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/loading/slot_queue.h"
#include "data/samples/source.h"

namespace composer {

/// A pool that has no threads until they are first needed, and grows while its reads come too late;
/// a thread that has had nothing to read for `idle` leaves. A process has at most kMostReaders
/// threads in all pools, except that each pool may have one.
class ReaderThreads {
 public:
  static constexpr size_t kMostReaders = 256;
  using Lock = std::unique_lock<std::mutex>;

  /// Unlocks a lock for as long as this lives.
  class Unlocked {
   public:
    explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Lock& lock_;
  };

  /// read: called with `lock` held, which it unlocks while it reads; returns false, or throws, when
  /// there is nothing to read. most: threads of this pool. lock must outlive this.
  ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read,
                std::chrono::milliseconds idle = std::chrono::seconds(5));
  /// Calls leave(), and waits for reads in progress.
  ~ReaderThreads();

  /// Reads nothing more; threads that wait for a store leave (LeaveWhen).
  void leave();

  /// A thread waits for bytes.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }
  /// Whether hurry() was called since there was last nothing to read.
  bool hurried() const { return hurried_.load(std::memory_order_relaxed); }

  // With the lock held:

  /// There is more to read, for one thread or for all threads.
  void wake_one();
  void wake_all();
  size_t count() const { return working_; }

 private:
  struct Reader {
    std::thread thread{};
    bool left = false;
  };

  void work(Reader& self);
  bool read(Lock& lock);
  void add();

  std::mutex& lock_;
  const size_t most_;
  const std::function<bool(Lock&)> read_;
  const std::chrono::milliseconds idle_time_;
  std::atomic<bool> hurried_{false};
  std::atomic<bool> stopping_{false};

  // Guarded by the lock:
  size_t working_ = 0;  ///< threads that have not left
  size_t idle_ = 0;
  double refused_until_ = 0;  ///< steady_seconds() until which no thread is added
  std::condition_variable more_;
  std::list<Reader> readers_;
};

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
