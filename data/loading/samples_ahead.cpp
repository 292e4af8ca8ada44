#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/work_range.h"
#include "data/loading/read_ahead.h"

namespace composer {
namespace {

/// A thread that wants a sample reads the sample itself where no reader has begun it, waits where a
/// reader is reading it, and takes the bytes without a copy where they have arrived. Readers begin
/// when the threads' own reads are slow, and end when the readers' are quick; a remote source is
/// always read ahead.
class SamplesAhead final : public ReadAhead {
 public:
  explicit SamplesAhead(const ReadAheadPlan& plan)
      : source_(plan.source),
        limits_(plan.limits),
        cold_(plan.options.cold),
        cursor_(plan.sampler, plan.options, plan.batches, plan.all_epochs),
        readers_(lock_, limits_.threads, [this](Lock& lock) { return read_next(lock); }) {
    free_.reserve(limits_.samples);
  }

  int64_t restart(int64_t epoch, int64_t batch) override {
    const std::lock_guard guard(lock_);
    for (auto entry = entries_.begin(); entry != entries_.end();) entry = drop(entry);
    update_concerned();
    resting_ = false;
    arrived_.notify_all();
    const int64_t sequence = cursor_.restart(epoch, batch);
    if (active_) readers_.wake_all();
    return sequence;
  }

  void ask(int64_t epoch) override {
    const std::lock_guard guard(lock_);
    resting_ = false;
    if (cursor_.ask(epoch) && active_) readers_.wake_all();
  }

  void rest() override {
    const std::lock_guard guard(lock_);
    resting_ = true;
    free_.clear();
    free_bytes_ = 0;
  }

  void leave() override { readers_.leave(); }

  /// The cursor passes the task before the thread looks at concerned_: where that is false, no
  /// reader claims a sample of the task.
  void begin(const Task& task) override { cursor_.pass(task.slot->sequence + task.end); }

  void bring(const Task& task, int64_t offset, int64_t sample, ReadScratch& scratch) override {
    if (!concerned_.load() || !take(task, offset, scratch)) read_here(sample, scratch);
  }

  void end(const Task& task, Visit&) override {
    if (!concerned_.load()) return;
    const std::lock_guard guard(lock_);
    const int64_t end = task.slot->sequence + task.end;
    auto entry = entries_.lower_bound(task.slot->sequence + task.begin);
    while (entry != entries_.end() && entry->first < end) entry = drop(entry);
    update_concerned();
  }

 private:
  using Lock = ReaderThreads::Lock;
  using Bytes = std::vector<uint8_t>;

  /// A sample that readers read, or are to read.
  struct Entry {
    enum class State { unread, reading, arrived, failed };
    int64_t sample = 0;
    State state = State::unread;
    Bytes bytes{};  ///< once arrived
    FileStamp stamp{};
  };
  using Entries = std::map<int64_t, Entry>;  ///< by number in the sequence

  /// A reader's share of held_.
  struct Room {
    uint64_t held = 0;
    uint64_t lacked = 0;  ///< bytes of a sample that does not fit now, but will
  };

  bool always() const { return limits_.quick < 0 || source_.is_remote(); }

  /// Seconds that a read took beyond a second per GB.
  static double waited(double seconds, size_t bytes) {
    return seconds - static_cast<double>(bytes) * 1e-9;
  }

  void read_here(int64_t sample, ReadScratch& scratch) {
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

  /// False where the caller has to read the sample.
  bool take(const Task& task, int64_t offset, ReadScratch& scratch) {
    Lock lock(lock_);
    if (active_) offer_rest(task, offset);
    for (;;) {
      const auto found = entries_.find(task.slot->sequence + offset);
      if (found == entries_.end() || found->second.state == Entry::State::unread ||
          found->second.state == Entry::State::failed) {
        readers_.hurry();
        if (found != entries_.end()) drop(found);
        update_concerned();
        return false;
      }
      if (found->second.state == Entry::State::arrived) {
        std::swap(scratch.file, found->second.bytes);
        scratch.fetched = found->second.stamp;
        held_ -= scratch.file.capacity();
        held_ += found->second.bytes.capacity();
        drop(found);
        update_concerned();
        return true;
      }
      readers_.hurry();
      arrived_.wait(lock);
    }
  }

  // With the lock held:

  /// Lets readers help with a task that was begun before they came to it: with its samples behind
  /// `offset`.
  void offer_rest(const Task& task, int64_t offset) {
    const BatchSlot& slot = *task.slot;
    if (offset + 1 == task.end || entries_.contains(slot.sequence + offset + 1)) return;
    for (int64_t next = offset + 1; next < task.end; ++next) {
      const auto [entry, is_new] = entries_.try_emplace(
          slot.sequence + next, Entry{.sample = slot.order(slot.first + next)});
      if (is_new) unread_.insert(entry->first);
    }
    readers_.wake_all();
  }

  void set_active(bool active) {
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
    while (!unread_.empty()) drop(entries_.find(*unread_.begin()));
    update_concerned();
  }

  void update_concerned() { concerned_ = active_ || !entries_.empty(); }

  /// A reader that is reading the sample finds its entry gone.
  Entries::iterator drop(Entries::iterator entry) {
    if (entry->second.state == Entry::State::unread) unread_.erase(entry->first);
    if (entry->second.state == Entry::State::arrived) {
      held_ -= entry->second.bytes.capacity();
      give_back(std::move(entry->second.bytes));
    }
    if (active_) readers_.wake_one();
    return entries_.erase(entry);
  }

  /// A buffer that once held a rare large file is not kept for samples of the usual size.
  bool is_usual(const Bytes& bytes) const { return bytes.capacity() <= 2 * usual_; }

  void give_back(Bytes bytes) {
    if (resting_ || !is_usual(bytes) || free_.size() == free_.capacity()) return;
    if (free_bytes_ + bytes.capacity() > limits_.bytes / 8) return;
    free_bytes_ += bytes.capacity();
    free_.push_back(std::move(bytes));
  }

  Bytes take_free() {
    if (free_.empty()) return {};
    Bytes bytes = std::move(free_.back());
    free_.pop_back();
    free_bytes_ -= bytes.capacity();
    return is_usual(bytes) ? std::move(bytes) : Bytes();
  }

  bool has_room() const { return held_ == 0 || held_ + usual_ <= limits_.bytes; }

  /// The entry that the caller reads now; end() where there is no room, or nothing to read.
  Entries::iterator claim() {
    if (!has_room()) return entries_.end();
    auto entry = entries_.end();
    if (!unread_.empty()) {
      entry = entries_.find(*unread_.begin());
      unread_.erase(unread_.begin());
    } else if (entries_.size() < limits_.samples) {
      if (const auto next = cursor_.next())
        entry = entries_.try_emplace(next->sequence, Entry{.sample = next->sample}).first;
    }
    if (entry != entries_.end()) entry->second.state = Entry::State::reading;
    return entry;
  }

  bool read_next(Lock& lock) {
    if (!active_) return false;
    const auto claimed = claim();
    if (claimed == entries_.end()) return false;
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
    const auto entry = entries_.find(sequence);
    if (good) usual_ = std::max<uint64_t>(4096, usual_ - usual_ / 16 + bytes.size() / 16);
    if (good && entry != entries_.end()) {
      held_ += bytes.capacity();
      entry->second = {sample, Entry::State::arrived, std::move(bytes), stamp};
    } else {
      if (entry != entries_.end()) entry->second.state = Entry::State::failed;
      give_back(std::move(bytes));
    }
    arrived_.notify_all();
    if (room.lacked > 0) {
      usual_ = std::max(usual_, room.lacked);
      if (entry != entries_.end()) put_back(entry);
      return has_room();
    }
    wait_ = moved_wait(wait_, wait, limits_, 16);
    if (++reads_ > 64 && wait_ < limits_.quick / 2 && !always()) set_active(false);
    return true;
  }

  /// The sample is read again once there is room.
  void put_back(Entries::iterator entry) {
    entry->second.state = Entry::State::failed;  // in case insert() finds no memory
    unread_.insert(entry->first);
    entry->second.state = Entry::State::unread;
  }

  // Without the lock:

  /// False where the sample cannot be read: the thread that wants the sample reports why.
  bool read(int64_t sample, Bytes& bytes, FileStamp& stamp, Room& room) {
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

  bool make_room(uint64_t bytes, Room& room) {
    const std::lock_guard guard(lock_);
    if (bytes > room.held && held_ - room.held + bytes > limits_.bytes) {
      if (bytes <= limits_.bytes) room.lacked = bytes;
      return false;
    }
    held_ += bytes - room.held;
    room.held = bytes;
    return true;
  }

  const Source& source_;
  const ReadAheadLimits limits_;
  const bool cold_;
  SampleCursor cursor_;
  std::atomic<float> own_wait_{0};  ///< recent mean wait of the loader's threads, seconds a read
  std::atomic<bool> concerned_{false};  ///< active_, or there are entries

  std::mutex lock_;
  std::condition_variable arrived_;
  bool active_ = false;  ///< readers read ahead
  Entries entries_;
  std::set<int64_t> unread_;   ///< numbers of the unread entries
  uint64_t held_ = 0;          ///< bytes of entries, and bytes that readers have made room for
  uint64_t usual_ = 64 << 10;  ///< recent mean size of a sample, bytes
  double wait_ = 0;            ///< recent mean wait of the readers, seconds a read
  int64_t reads_ = 0;          ///< reads since the readers began
  std::vector<Bytes> free_;    ///< buffers to read into
  uint64_t free_bytes_ = 0;
  bool resting_ = false;  ///< no buffers are kept in free_
  ReaderThreads readers_;
};

}  // namespace

std::unique_ptr<ReadAhead> make_samples_ahead(const ReadAheadPlan& plan) {
  return std::make_unique<SamplesAhead>(plan);
}

}  // namespace composer
