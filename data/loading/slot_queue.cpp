#include "data/loading/slot_queue.h"

#include <algorithm>
#include <utility>

namespace composer {
namespace {

bool has_untaken(const BatchSlot& draft) {
  return draft.taken.load(std::memory_order_relaxed) < draft.samples;
}

/// Whoever sees this sees the images too: each task was finished with a release.
bool is_done(const BatchSlot& draft) {
  return draft.done.load(std::memory_order_acquire) == draft.samples;
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
  for (const auto& draft : drafts_) draft->dropped.store(true, std::memory_order_relaxed);
  drafts_.clear();
}

void SlotQueue::ask(int64_t epoch) {
  const std::lock_guard guard(lock_);
  if (std::exchange(asked_epoch_, epoch) != epoch) work_there_.notify_all();
}

bool SlotQueue::is_ready() const {
  return drafts_.empty() ? cannot_open_ != nullptr : is_done(*drafts_.front());
}

bool SlotQueue::ready() {
  const std::lock_guard guard(lock_);
  return is_ready();
}

std::shared_ptr<BatchSlot> SlotQueue::next() {
  std::unique_lock guard(lock_);
  batch_there_.wait(guard, [this] { return is_ready(); });
  if (drafts_.empty()) std::rethrow_exception(cannot_open_);
  if (drafts_.front()->failure) std::rethrow_exception(drafts_.front()->failure);
  const auto draft = std::move(drafts_.front());
  drafts_.pop_front();
  guard.unlock();
  work_there_.notify_one();  // there is room for one more draft; who opens it wakes the others
  return draft;
}

/// Of the task's draft. Places are handed out once each; the draft's own fields were seen when it
/// was come by, under the lock.
bool SlotQueue::claim(Task& task) const {
  BatchSlot& draft = *task.draft;
  if (draft.dropped.load(std::memory_order_relaxed)) return false;
  task.begin = draft.taken.fetch_add(limits_.task_images, std::memory_order_relaxed);
  task.end = std::min(task.begin + limits_.task_images, draft.samples);
  return task.begin < draft.samples;
}

bool SlotQueue::take(Task& task) {
  task.failed_at = BatchSlot::kNowhere;
  task.failure = nullptr;
  task.bad.clear();
  if (task.draft && claim(task)) return true;
  task.draft.reset();
  const std::lock_guard guard(lock_);
  while (has_work()) {
    if (drafts_.empty() || !has_untaken(*drafts_.back())) {
      open_next();
      continue;
    }
    task.draft = drafts_.back();
    if (claim(task)) return true;
    task.draft.reset();  // others took the rest meanwhile
  }
  return false;
}

bool SlotQueue::has_work() const {
  if (stopped_) return false;
  if (!drafts_.empty() && has_untaken(*drafts_.back())) return true;
  const bool wanted = limits_.ahead || open_epoch_ <= asked_epoch_;
  return open_ && !cannot_open_ && wanted && drafts_.size() < limits_.drafts;
}

void SlotQueue::open_next() {
  try {
    drafts_.push_back(open_(open_epoch_, open_batch_));
  } catch (...) {
    cannot_open_ = std::current_exception();
    batch_there_.notify_one();
    return;
  }
  if (++open_batch_ == limits_.batches) ++open_epoch_, open_batch_ = 0;
  if (drafts_.back()->samples == 0) batch_there_.notify_one();
  work_there_.notify_all();
}

void SlotQueue::finish(const Task& task) {
  BatchSlot& draft = *task.draft;
  if (task.failure || !task.bad.empty()) {
    const std::lock_guard guard(lock_);
    draft.bad.insert(task.bad.begin(), task.bad.end());
    if (task.failed_at < draft.failed_at) {
      draft.failed_at = task.failed_at;
      draft.failure = task.failure;
    }
  }
  const int64_t images = task.end - task.begin;
  if (draft.done.fetch_add(images, std::memory_order_acq_rel) + images < draft.samples) return;
  // A consumer that found the draft unfinished is asleep once the lock has been free.
  { const std::lock_guard guard(lock_); }
  batch_there_.notify_one();
}

bool SlotQueue::wait() {
  std::unique_lock guard(lock_);
  work_there_.wait(guard, [this] { return stopped_ || has_work(); });
  return !stopped_;
}

}  // namespace composer
