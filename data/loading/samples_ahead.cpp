#include "data/loading/samples_ahead.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/work_range.h"

namespace composer {

SamplesAhead::SamplesAhead(const ReadAheadPlan& plan, const Sampler& sampler,
                           const LoaderOptions& options, int64_t batches, bool all_epochs)
    : source_(plan.source),
      limits_(plan.limits),
      cold_(plan.cold),
      walk_(sampler, options, batches, all_epochs),
      readers_(lock_, limits_.threads, [this](Lock& lock) { return read_next(lock); }) {
  free_.reserve(limits_.samples);
}

int64_t SamplesAhead::restart(int64_t epoch, int64_t batch) {
  const std::lock_guard guard(lock_);
  for (auto slot = slots_.begin(); slot != slots_.end();) slot = drop(slot);
  settle();
  resting_ = false;
  arrived_.notify_all();
  const int64_t sequence = walk_.restart(epoch, batch);
  if (active_) readers_.wake_all();
  return sequence;
}

void SamplesAhead::ask(int64_t epoch) {
  const std::lock_guard guard(lock_);
  resting_ = false;
  if (walk_.ask(epoch) && active_) readers_.wake_all();
}

void SamplesAhead::rest() {
  const std::lock_guard guard(lock_);
  resting_ = true;
  free_.clear();
  free_bytes_ = 0;
}

/// Before the thread looks at concerned_, so that no reader claims the task's samples where it
/// finds that false.
void SamplesAhead::begin(const Task& task) { walk_.pass(task.draft->sequence + task.end); }

void SamplesAhead::bring(const Task& task, int64_t place, int64_t sample, ReadScratch& scratch) {
  if (!concerned_.load() || !take(task, place, scratch)) read_here(sample, scratch);
}

void SamplesAhead::end(const Task& task, Visit&) {
  if (!concerned_.load()) return;
  const std::lock_guard guard(lock_);
  const int64_t end = task.draft->sequence + task.end;
  auto slot = slots_.lower_bound(task.draft->sequence + task.begin);
  while (slot != slots_.end() && slot->first < end) slot = drop(slot);
  settle();
}

bool SamplesAhead::always() const { return limits_.quick < 0 || source_.is_remote(); }

/// Seconds of a read beyond those that it takes where nobody need read ahead.
double SamplesAhead::waited(double seconds, size_t bytes) const {
  return seconds - static_cast<double>(bytes) * 1e-9;
}

void SamplesAhead::read_here(int64_t sample, ReadScratch& scratch) {
  if (cold_) source_.forget(sample, false);
  const double begin = steady_seconds();
  scratch.fetched = source_.fetch(sample, scratch.file, {});
  const double wait = waited(steady_seconds() - begin, scratch.file.size());
  float seen = own_wait_.load();
  const auto mean = static_cast<float>(moved_wait(seen, wait, limits_, 8));
  // Where another thread was first, its wait counts.
  if (!own_wait_.compare_exchange_strong(seen, mean)) return;
  if (mean < limits_.quick && !always()) return;
  const std::lock_guard guard(lock_);
  set_active(true);
}

/// False where the caller has to read.
bool SamplesAhead::take(const Task& task, int64_t place, ReadScratch& scratch) {
  Lock lock(lock_);
  if (active_) offer_rest(task, place);
  for (;;) {
    const auto found = slots_.find(task.draft->sequence + place);
    if (found == slots_.end() || found->second.state == Slot::State::unread ||
        found->second.state == Slot::State::failed) {
      readers_.hurry();
      if (found != slots_.end()) drop(found);
      settle();
      return false;
    }
    if (found->second.state == Slot::State::there) {
      std::swap(scratch.file, found->second.bytes);
      scratch.fetched = found->second.stamp;
      held_ -= scratch.file.capacity();
      held_ += found->second.bytes.capacity();
      drop(found);
      settle();
      return true;
    }
    readers_.hurry();
    arrived_.wait(lock);
  }
}

/// Samples of a task that was begun before readers came to it: they may help with those behind
/// `place`.
void SamplesAhead::offer_rest(const Task& task, int64_t place) {
  const BatchSlot& draft = *task.draft;
  if (place + 1 == task.end || slots_.contains(draft.sequence + place + 1)) return;
  for (int64_t next = place + 1; next < task.end; ++next) {
    const auto [slot, is_new] =
        slots_.try_emplace(draft.sequence + next, Slot{.sample = draft.order(draft.first + next)});
    if (is_new) unread_.insert(slot->first);
  }
  readers_.wake_all();
}

void SamplesAhead::set_active(bool active) {
  if (active_ == active) return;
  active_ = active;
  own_wait_ = 0;
  if (active) {
    wait_ = 4 * std::abs(limits_.quick);
    reads_ = 0;
    concerned_ = true;
    readers_.hurry();
    readers_.wake_all();
    return;
  }
  while (!unread_.empty()) drop(slots_.find(*unread_.begin()));
  settle();
}

void SamplesAhead::settle() { concerned_ = active_ || !slots_.empty(); }

/// A reader that is at it finds the slot gone.
SamplesAhead::Slots::iterator SamplesAhead::drop(Slots::iterator slot) {
  if (slot->second.state == Slot::State::unread) unread_.erase(slot->first);
  if (slot->second.state == Slot::State::there) {
    held_ -= slot->second.bytes.capacity();
    give_back(std::move(slot->second.bytes));
  }
  if (active_) readers_.wake_one();
  return slots_.erase(slot);
}

/// A buffer that once held a rare large file is not kept for usual ones.
bool SamplesAhead::is_usual(const Bytes& bytes) const { return bytes.capacity() <= 2 * usual_; }

void SamplesAhead::give_back(Bytes bytes) {
  if (resting_ || !is_usual(bytes) || free_.size() == free_.capacity()) return;
  if (free_bytes_ + bytes.capacity() > limits_.bytes / 8) return;
  free_bytes_ += bytes.capacity();
  free_.push_back(std::move(bytes));
}

SamplesAhead::Bytes SamplesAhead::take_free() {
  if (free_.empty()) return {};
  Bytes bytes = std::move(free_.back());
  free_.pop_back();
  free_bytes_ -= bytes.capacity();
  return is_usual(bytes) ? std::move(bytes) : Bytes();
}

bool SamplesAhead::has_room() const { return held_ == 0 || held_ + usual_ <= limits_.bytes; }

/// A slot that is now being read; none where there is no room, or nothing wanted.
SamplesAhead::Slots::iterator SamplesAhead::claim() {
  if (!has_room()) return slots_.end();
  auto slot = slots_.end();
  if (!unread_.empty()) {
    slot = slots_.find(*unread_.begin());
    unread_.erase(unread_.begin());
  } else if (slots_.size() < limits_.samples) {
    if (const auto next = walk_.next())
      slot = slots_.try_emplace(next->sequence, Slot{.sample = next->sample}).first;
  }
  if (slot != slots_.end()) slot->second.state = Slot::State::reading;
  return slot;
}

bool SamplesAhead::read_next(Lock& lock) {
  if (!active_) return false;
  const auto claimed = claim();
  if (claimed == slots_.end()) return false;
  const int64_t sequence = claimed->first, sample = claimed->second.sample;
  Bytes bytes = take_free();
  Room room{.held = std::max<uint64_t>(usual_, bytes.capacity())};
  held_ += room.held;
  lock.unlock();
  FileStamp stamp;
  const double begin = steady_seconds();
  const bool good = read(sample, bytes, stamp, room);
  const double wait = waited(steady_seconds() - begin, good ? bytes.size() : 0);
  lock.lock();
  held_ -= room.held;
  const auto slot = slots_.find(sequence);
  if (good) usual_ = std::max<uint64_t>(4096, usual_ - usual_ / 16 + bytes.size() / 16);
  if (good && slot != slots_.end()) {
    held_ += bytes.capacity();
    slot->second = {sample, Slot::State::there, std::move(bytes), stamp};
  } else {
    if (slot != slots_.end()) slot->second.state = Slot::State::failed;
    give_back(std::move(bytes));
  }
  arrived_.notify_all();
  if (room.lacked > 0) {
    usual_ = std::max(usual_, room.lacked);
    if (slot != slots_.end()) put_back(slot);
    return has_room();
  }
  wait_ = moved_wait(wait_, wait, limits_, 16);
  if (++reads_ > 64 && wait_ < limits_.quick / 2 && !always()) set_active(false);
  return true;
}

/// It is to be read once there is room.
void SamplesAhead::put_back(Slots::iterator slot) {
  slot->second.state = Slot::State::failed;  // should there be no memory to list it
  unread_.insert(slot->first);
  slot->second.state = Slot::State::unread;
}

/// Without the lock. False where who wants the sample has to find out why.
bool SamplesAhead::read(int64_t sample, Bytes& bytes, FileStamp& stamp, Room& room) {
  try {
    const WorkRange range("read ahead");
    if (cold_) source_.forget(sample, false);
    stamp = source_.fetch(sample, bytes, [&](uint64_t size) {
      return make_room(std::max<uint64_t>(size, bytes.capacity()), room);
    });
    return true;
  } catch (...) {
    return false;
  }
}

/// Without the lock.
bool SamplesAhead::make_room(uint64_t bytes, Room& room) {
  const std::lock_guard guard(lock_);
  if (bytes > room.held && held_ - room.held + bytes > limits_.bytes) {
    if (bytes <= limits_.bytes) room.lacked = bytes;
    return false;
  }
  held_ += bytes - room.held;
  room.held = bytes;
  return true;
}

}  // namespace composer
