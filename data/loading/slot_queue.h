// The batches in the making between a loader's consumer and the threads that fill them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "data/loading/batch_slot.h"

namespace composer {

/// Makes the draft of a batch.
using OpenSlot = std::function<std::shared_ptr<BatchSlot>(int64_t epoch, int64_t batch)>;

/// Drafts are opened, cut into tasks and handed out in the order of their batches. Taking a task of
/// the draft that a thread is at, and finishing it, are an atomic addition each. The lock is for
/// opening and handing out drafts, for sleep, and for tasks in which something went wrong.
class SlotQueue {
 public:
  struct Limits {
    int64_t batches = 1;      ///< of an epoch
    size_t drafts = 1;        ///< that are not yet handed out
    int64_t task_images = 1;  ///< of a task
    bool ahead = false;       ///< opens drafts of an epoch before it is asked for
  };

  explicit SlotQueue(const Limits& limits) : limits_(limits) {}

  /// Drops all drafts and goes on from this batch, batch `batches` being the next epoch's first.
  /// `open` is called by one thread at a time; when it throws, no more drafts are opened.
  void restart(int64_t epoch, int64_t batch, OpenSlot open);
  /// Drops all drafts for good.
  void stop();

  // For the consumer.

  /// Batches of this epoch are wanted.
  void ask(int64_t epoch);
  /// Whether next() would not wait.
  bool ready();
  /// The next draft, all of whose images are there. Throws what its lowest failed place did, and
  /// what its opening did, every time until the restart.
  std::shared_ptr<BatchSlot> next();

  // For the threads that fill drafts.

  /// Gives the task other images, of its draft if that has any left. False when there are none now:
  /// the task holds no draft then.
  bool take(Task& task);
  /// All images of the task are there, or have failed.
  void finish(const Task& task);
  /// Sleeps until there may be something to take. False once stopped.
  bool wait();

 private:
  bool claim(Task& task) const;
  bool is_ready() const;
  bool has_work() const;
  void open_next();
  void drop_all();

  const Limits limits_;
  std::mutex lock_;  // of all below; only the back draft has images that nobody has taken
  std::condition_variable work_there_, batch_there_;
  std::deque<std::shared_ptr<BatchSlot>> drafts_;
  OpenSlot open_;
  int64_t open_epoch_ = 0, open_batch_ = 0;  // of the next draft
  int64_t asked_epoch_ = 0;
  std::exception_ptr cannot_open_;
  bool stopped_ = false;
};

}  // namespace composer
