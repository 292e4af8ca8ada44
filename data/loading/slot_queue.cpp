#include "data/loading/slot_queue.h"

namespace composer {
namespace {

bool has_untaken(const BatchSlot& slot) {
  return slot.taken.load(std::memory_order_relaxed) < slot.samples;
}

/// A thread that reads true sees the images too: each task was finished with a release.
bool is_done(const BatchSlot& slot) {
  return slot.done.load(std::memory_order_acquire) == slot.samples;
}

}  // namespace

void SlotQueue::restart(int64_t epoch, int64_t batch, OpenSlot open) {
  {
    const std::lock_guard guard(lock_);
    drop_all();
    open_ = std::move(open);
    cannot_open_ = nullptr;
    open_epoch_ = batch == limits_.batches ? epoch + 1 : epoch;
    open_batch_ = batch == limits_.batches ? 0 : batch;
    asked_epoch_ = epoch;
  }
  work_there_.notify_all();
}

void SlotQueue::stop() {
  {
    const std::lock_guard guard(lock_);
    drop_all();
    stopped_ = true;
  }
  work_there_.notify_all();
}

void SlotQueue::drop_all() {
  for (const auto& slot : slots_) slot->dropped.store(true, std::memory_order_relaxed);
  slots_.clear();
}

void SlotQueue::ask(int64_t epoch) {
  const std::lock_guard guard(lock_);
  if (std::exchange(asked_epoch_, epoch) != epoch) work_there_.notify_all();
}

bool SlotQueue::is_ready() const {
  return slots_.empty() ? cannot_open_ != nullptr : is_done(*slots_.front());
}

bool SlotQueue::ready() {
  const std::lock_guard guard(lock_);
  return is_ready();
}

bool SlotQueue::ready_within(std::chrono::milliseconds time) {
  std::unique_lock guard(lock_);
  return batch_there_.wait_for(guard, time, [this] { return is_ready(); });
}

std::shared_ptr<BatchSlot> SlotQueue::next() {
  std::unique_lock guard(lock_);
  batch_there_.wait(guard, [this] { return is_ready(); });
  if (slots_.empty()) std::rethrow_exception(cannot_open_);
  if (slots_.front()->failure) std::rethrow_exception(slots_.front()->failure);
  const auto slot = std::move(slots_.front());
  slots_.pop_front();
  guard.unlock();
  work_there_
      .notify_one();  // there is room for one more slot; the thread that opens it wakes the others
  return slot;
}

/// Takes the next offsets of the task's slot. The thread has seen the slot's other members, under
/// the lock, when it got the slot.
bool SlotQueue::claim(Task& task) const {
  BatchSlot& slot = *task.slot;
  if (slot.dropped.load(std::memory_order_relaxed)) return false;
  task.begin = slot.taken.fetch_add(limits_.task_images, std::memory_order_relaxed);
  task.end = std::min(task.begin + limits_.task_images, slot.samples);
  return task.begin < slot.samples;
}

bool SlotQueue::take(Task& task) {
  task.failed_at = BatchSlot::kNowhere;
  task.failure = nullptr;
  task.bad.clear();
  if (task.slot && claim(task)) return true;
  task.slot.reset();
  const std::lock_guard guard(lock_);
  while (has_work()) {
    if (slots_.empty() || !has_untaken(*slots_.back())) {
      open_next();
      continue;
    }
    task.slot = slots_.back();
    if (claim(task)) return true;
    task.slot.reset();  // others took the rest meanwhile
  }
  return false;
}

bool SlotQueue::has_work() const {
  if (stopped_) return false;
  if (!slots_.empty() && has_untaken(*slots_.back())) return true;
  const bool wanted = limits_.ahead || open_epoch_ <= asked_epoch_;
  return open_ && !cannot_open_ && wanted && slots_.size() < limits_.slots;
}

void SlotQueue::open_next() {
  try {
    slots_.push_back(open_(open_epoch_, open_batch_));
  } catch (...) {
    cannot_open_ = std::current_exception();
    batch_there_.notify_one();
    return;
  }
  if (++open_batch_ == limits_.batches) ++open_epoch_, open_batch_ = 0;
  if (slots_.back()->samples == 0) batch_there_.notify_one();
  work_there_.notify_all();
}

void SlotQueue::finish(const Task& task) {
  BatchSlot& slot = *task.slot;
  if (task.failure || !task.bad.empty()) {
    const std::lock_guard guard(lock_);
    slot.bad.insert(task.bad.begin(), task.bad.end());
    if (task.failed_at < slot.failed_at) {
      slot.failed_at = task.failed_at;
      slot.failure = task.failure;
    }
  }
  const int64_t images = task.end - task.begin;
  if (slot.done.fetch_add(images, std::memory_order_acq_rel) + images < slot.samples) return;
  // A consumer that found the slot unfinished is asleep once the lock has been free.
  { const std::lock_guard guard(lock_); }
  batch_there_.notify_one();
}

bool SlotQueue::wait() {
  std::unique_lock guard(lock_);
  work_there_.wait(guard, [this] { return stopped_ || has_work(); });
  return !stopped_;
}

}  // namespace composer
