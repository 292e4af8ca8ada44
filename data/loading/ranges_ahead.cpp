#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/work_range.h"
#include "data/loading/read_ahead.h"

namespace composer {
namespace {

constexpr uint64_t kStretchBytes = 8 << 20;
constexpr int64_t kStretchSamples = 4096;
constexpr uint64_t kLeastBytes = 1024;     // a sample counts for at least this many, lost or not
constexpr uint64_t kPieceBytes = 2 << 20;  // several readers share a page of a .beton file
constexpr uint64_t kRemotePieceBytes = 8 << 20;  // one request
constexpr uint64_t kGapBytes = 32 << 10;  // reading a gap of this size costs less than a request
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Major page faults of this thread so far.
int64_t page_waits() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

/// The first samples of a window of a quasi-random order lie all over the window: all of it has to
/// be in memory when the threads leave the window before.
uint64_t horizon_of(const ReadAheadPlan& plan) {
  if (plan.window_pages == 0 || plan.source.size() == 0) return plan.limits.bytes;
  const auto page = plan.source.extent(0, true);
  const uint64_t page_bytes = page ? page->bytes() : 0;
  return std::max(plan.limits.bytes, page_bytes * static_cast<uint64_t>(plan.window_pages));
}

/// Readers begin when a thread of the loader had a major page fault, and end when their own reads
/// are quick; a remote source is always read ahead. Nobody waits for a reader: the first thread
/// that touches a page has the system read it.
class RangesAhead final : public ReadAhead {
 public:
  explicit RangesAhead(const ReadAheadPlan& plan)
      : source_(plan.source),
        plan_(plan),
        cold_(plan.options.cold),
        helps_(plan.source.is_remote()),
        horizon_(horizon_of(plan)),
        cursor_(plan.sampler, plan.options, plan.batches, plan.all_epochs),
        readers_(lock_, plan.limits.threads, [this](Lock& lock) { return read_next(lock); }) {}

  int64_t restart(int64_t epoch, int64_t batch) override {
    const std::lock_guard guard(lock_);
    forget_plan();
    const int64_t sequence = cursor_.restart(epoch, batch);
    if (active_) readers_.wake_all();
    return sequence;
  }

  void ask(int64_t epoch) override {
    const std::lock_guard guard(lock_);
    if (cursor_.ask(epoch) && active_) readers_.wake_all();
  }

  void leave() override { readers_.leave(); }

  void begin(const Task& task) override {
    if (!helps_) pass(task);
    if (always()) missed_a_page();
  }

  void bring(const Task& task, int64_t offset, int64_t sample, ReadScratch&) override {
    if (!cold_) return;
    const int64_t sequence = task.slot->sequence + offset;
    if (sequence < planned_begin_ || sequence >= planned_end_) source_.forget(sample, false);
  }

  void end(const Task& task, Visit& visit) override {
    if (helps_) pass(task);
    constexpr int64_t kTasks = 4;  // getrusage() costs as much as decoding a small image
    if (visit.tasks++ % kTasks != 0) return;
    const int64_t faults = page_waits();
    if (visit.faults >= 0 && faults > visit.faults) missed_a_page();
    visit.faults = faults;
  }

 private:
  using Lock = ReaderThreads::Lock;

  /// Consecutive samples whose pieces were planned.
  struct Stretch {
    int64_t begin, end;  ///< in the sequence
    uint64_t bytes;
  };

  /// An extent to read, for the stretch that ends at this number.
  struct Piece {
    Extent extent;
    int64_t end;
  };

  bool always() const { return plan_.limits.quick < 0 || source_.is_remote(); }

  /// Readers leave the task's samples to the thread that has begun the task, which is as quick. The
  /// exception is a remote source, where that thread would request one sample after another.
  void pass(const Task& task) {
    cursor_.pass(task.slot->sequence + task.end);
    if (cursor_.passed() < wake_at_.load()) return;
    const std::lock_guard guard(lock_);
    wake_at_ = kNever;
    readers_.wake_one();
  }

  void missed_a_page() {
    readers_.hurry();
    if (active_) return help_lone_reader();
    const std::lock_guard guard(lock_);
    if (active_.exchange(true)) return;
    wait_ = std::abs(plan_.limits.quick);
    reads_ = 0;
    readers_.wake_one();
  }

  /// Bytes that one reader was to find in the cache may have to come over the network after all.
  void help_lone_reader() {
    const double since = alone_since_;
    if (since == 0 || steady_seconds() - since < 10 * plan_.limits.quick) return;
    if (alone_since_.exchange(0) == 0) return;
    const std::lock_guard guard(lock_);
    readers_.wake_one();
  }

  // With the lock held:

  void forget_plan() {
    ++plans_;
    stretches_.clear(), pieces_.clear(), pages_.clear();
    wake_at_ = kNever;
    planned_begin_ = planned_end_ = 0;
  }

  /// Whether enough is planned until the threads have passed more samples.
  bool is_full() {
    for (;;) {
      const int64_t passed = cursor_.passed();
      while (!stretches_.empty() && stretches_.front().end <= passed) stretches_.pop_front();
      const uint64_t bytes =
          std::accumulate(stretches_.begin(), stretches_.end(), uint64_t{0},
                          [](uint64_t sum, const Stretch& one) { return sum + one.bytes; });
      if (stretches_.empty() || bytes < horizon_) return false;
      wake_at_ = stretches_.front().end;
      if (cursor_.passed() < wake_at_) return true;  // else the threads passed it just before
    }
  }

  /// A whole page is read once in its window.
  bool is_new_page(const Extent& page) {
    const auto same = [&](const Extent& other) {
      return other.file == page.file && other.begin == page.begin;
    };
    if (std::ranges::any_of(pages_, same)) return false;
    pages_.push_back(page);
    if (std::ssize(pages_) > plan_.window_pages) pages_.pop_front();
    return true;
  }

  /// Adds to the extents what is to be read for a sample. Unlocks while the source looks up the
  /// sample in the file's table, which may have to come from storage first.
  void plan_sample(Lock& lock, int64_t sample, uint64_t& bytes, std::vector<Extent>& extents) {
    const bool pages = plan_.window_pages > 0;
    std::optional<Extent> own, wanted;
    {
      const ReaderThreads::Unlocked meanwhile(lock);
      own = source_.extent(sample, false);
      wanted = own && pages ? source_.extent(sample, true) : own;
    }
    bytes += own ? std::max(own->bytes(), kLeastBytes) : kLeastBytes;
    if (!wanted || (pages && !is_new_page(*wanted))) return;
    if (cold_) source_.forget(sample, pages);
    extents.push_back(*wanted);
  }

  /// False where there is nothing to plan now.
  bool plan_stretch(Lock& lock) {
    if (is_full()) return false;
    const int64_t plan = plans_;
    Stretch stretch{-1, 0, 0};
    std::vector<Extent> extents;
    for (int64_t i = 0; i < kStretchSamples && stretch.bytes < kStretchBytes; ++i) {
      const auto next = cursor_.next();
      if (!next) break;
      if (stretch.begin < 0) stretch.begin = next->sequence;
      stretch.end = next->sequence + 1;
      plan_sample(lock, next->sample, stretch.bytes, extents);
      if (plan != plans_) return true;  // restarted meanwhile
    }
    if (stretch.begin < 0) return false;
    stretches_.push_back(stretch);
    if (stretch.begin != planned_end_) planned_begin_ = stretch.begin;
    planned_end_ = stretch.end;
    const uint64_t most = source_.is_remote() ? kRemotePieceBytes : kPieceBytes;
    for (const auto& extent : merged(std::move(extents), kGapBytes, most))
      pieces_.push_back({extent, stretch.end});
    return true;
  }

  /// One reader plans at a time.
  bool plan_more(Lock& lock) {
    if (planning_) {
      hurried_ |= readers_.hurried();
      return false;
    }
    planning_ = true;
    bool planned = false;
    try {
      planned = plan_stretch(lock);
    } catch (...) {
      planning_ = false;
      throw;
    }
    planning_ = false;
    if (std::exchange(hurried_, false)) readers_.hurry();
    return planned;
  }

  bool read_next(Lock& lock) {
    if (!active_) return false;
    while (!pieces_.empty() && pieces_.front().end <= cursor_.passed()) pieces_.pop_front();
    if (pieces_.empty()) return plan_more(lock);
    const Extent piece = pieces_.front().extent;
    pieces_.pop_front();
    const bool alone = !pieces_.empty() && comes_quickly();
    if (!pieces_.empty() && !alone) readers_.wake_one();
    lock.unlock();
    const double begin = steady_seconds();
    if (alone) alone_since_ = begin;
    {
      const WorkRange range("read ahead");
      source_.bring(piece);
    }
    const double seconds = steady_seconds() - begin;
    lock.lock();
    if (alone) alone_since_ = 0;
    note(seconds, piece.bytes());
    return true;
  }

  /// True if one reader is enough. A remote source's bytes are in the cache then.
  bool comes_quickly() const { return reads_ > 16 && wait_ <= plan_.limits.quick / 4; }

  void note(double seconds, uint64_t bytes) {
    const double wait = seconds - static_cast<double>(bytes) * 0.25e-9;  // memory: 4 GB a second
    wait_ = moved_wait(wait_, wait, plan_.limits, 8);
    ++reads_;
    if (comes_quickly() && !always()) active_ = false;
  }

  const Source& source_;
  const ReadAheadPlan plan_;
  const bool cold_;
  const bool helps_;        ///< readers also read samples of tasks that have begun
  const uint64_t horizon_;  ///< bytes of samples to plan ahead
  SampleCursor cursor_;
  std::atomic<bool> active_{false};       ///< readers read ahead
  std::atomic<int64_t> wake_at_{kNever};  ///< planning goes on at this number in the sequence
  /// steady_seconds() since which one reader reads while others idle; 0: no reader is alone
  std::atomic<double> alone_since_{0};
  std::atomic<int64_t> planned_begin_{0}, planned_end_{0};

  std::mutex lock_;
  std::deque<Stretch> stretches_;  ///< stretches that the threads have not passed
  std::deque<Piece> pieces_;       ///< pieces that are not read yet
  std::deque<Extent> pages_;       ///< pages that were planned last
  bool planning_ = false;          ///< true while a reader plans the next extents
  bool hurried_ = false;           ///< true where another reader was hurried meanwhile
  int64_t plans_ = 0;              ///< number of restarts
  double wait_ = 0;                ///< recent mean wait, seconds a piece
  int64_t reads_ = 0;              ///< pieces read since the readers began
  ReaderThreads readers_;
};

}  // namespace

std::vector<Extent> merged(std::vector<Extent> extents, uint64_t gap, uint64_t most) {
  std::ranges::sort(extents, {}, [](const Extent& one) { return std::pair(one.file, one.begin); });
  std::vector<Extent> pieces;
  for (Extent next : extents) {
    if (!pieces.empty() && pieces.back().file == next.file &&
        next.begin <= pieces.back().end + gap) {
      next.begin = pieces.back().begin;
      next.end = std::max(next.end, pieces.back().end);
      pieces.pop_back();
    }
    for (; next.bytes() > most; next.begin += most)
      pieces.push_back({next.file, next.begin, next.begin + most});
    if (next.bytes() > 0) pieces.push_back(next);
  }
  return pieces;
}

std::unique_ptr<ReadAhead> make_ranges_ahead(const ReadAheadPlan& plan) {
  return std::make_unique<RangesAhead>(plan);
}

}  // namespace composer
