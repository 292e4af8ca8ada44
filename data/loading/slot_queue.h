// Batches that are being filled, in a queue between a loader's consumer and the threads that fill
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/loading/image_size.h"
#include "data/loading/batch_arrays.h"
#include "data/samples/order.h"

namespace composer {

/// A batch, or a rank's slice of a batch. Its samples have offsets from 0 to samples - 1. OpenSlot
/// sets the first block of members, which then stay the same except for the elements of the arrays;
/// SlotQueue sets the others.
struct BatchSlot {
  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

  int64_t epoch = 0;
  int64_t first = 0;  ///< position of the first sample in the epoch
  int64_t samples = 0;
  int64_t sequence = 0;  ///< number of the first sample (data/loading/read_ahead.h)
  ImageSize size;
  EpochOrder order;
  BatchArrays arrays;

  std::atomic<int64_t> taken{0};     ///< tasks have taken the offsets below this one
  std::atomic<int64_t> done{0};      ///< samples of finished tasks
  std::atomic<bool> dropped{false};  ///< nobody waits for the slot any more
  std::atomic<bool> lost{false};     ///< a store failed: the run ends with that error
  int64_t failed_at = kNowhere;      ///< the lowest offset that failed
  std::exception_ptr failure = {};   ///< what was thrown at failed_at
  std::set<int64_t> bad = {};        ///< offsets of samples that were skipped
};

/// Consecutive samples of a slot, offsets begin to end - 1: a thread's unit of work.
struct Task {
  std::shared_ptr<BatchSlot> slot = {};
  int64_t begin = 0;
  int64_t end = 0;
  int64_t failed_at = BatchSlot::kNowhere;
  std::exception_ptr failure = {};
  std::vector<int64_t> bad = {};
};

/// Makes the slot of a batch.
using OpenSlot = std::function<std::shared_ptr<BatchSlot>(int64_t epoch, int64_t batch)>;

/// Slots are opened, cut into tasks and handed out in the order of their batches. A thread takes
/// the next task of its slot, and finishes a task, by one atomic addition each. The lock is for
/// opening and handing out slots, for sleep, and for tasks with failures or bad samples.
class SlotQueue {
 public:
  struct Limits {
    int64_t batches = 1;      ///< batches of an epoch
    size_t slots = 1;         ///< most slots that are open and not yet handed out
    int64_t task_images = 1;  ///< samples of a task
    bool ahead = false;       ///< slots of an epoch are opened before the epoch is asked for
  };

  explicit SlotQueue(const Limits& limits) : limits_(limits) {}

  /// Drops all slots and goes on from this batch; batch `batches` is the next epoch's first.
  /// `open` is called by one thread at a time; when it throws, no more slots are opened.
  void restart(int64_t epoch, int64_t batch, OpenSlot open);
  /// Drops all slots for good.
  void stop();

  // For the consumer.

  /// The consumer wants batches of this epoch.
  void ask(int64_t epoch);
  /// Whether next() would not wait.
  bool ready();
  /// The same, once that is so or the time is over.
  bool ready_within(std::chrono::milliseconds time);
  /// The next slot, once it is filled. Throws what its lowest failed offset threw, or what opening
  /// it threw, every time until the restart.
  std::shared_ptr<BatchSlot> next();

  // For the threads that fill slots.

  /// Gives the task other samples, of its own slot where that has any left. False when there are
  /// none now; the task then holds no slot.
  bool take(Task& task);
  /// All samples of the task are filled, or have failed.
  void finish(const Task& task);
  /// Sleeps until there may be a task to take. False once stopped.
  bool wait();

 private:
  bool claim(Task& task) const;
  bool is_ready() const;
  bool has_work() const;
  void open_next();
  void drop_all();

  const Limits limits_;
  std::mutex lock_;  // of all members below
  std::condition_variable work_there_, batch_there_;
  std::deque<std::shared_ptr<BatchSlot>> slots_;  // only the last has samples that no task took
  OpenSlot open_;
  int64_t open_epoch_ = 0, open_batch_ = 0;  // of the next slot to open
  int64_t asked_epoch_ = 0;
  std::exception_ptr cannot_open_;
  bool stopped_ = false;
};

}  // namespace composer
