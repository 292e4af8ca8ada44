#include "data/loading/ranges_ahead.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/work_range.h"

namespace composer {
namespace {

constexpr uint64_t kStretchBytes = 8 << 20;
constexpr int64_t kStretchSamples = 4096;
constexpr uint64_t kLeastBytes = 1024;           // that a sample counts for, be it lost
constexpr uint64_t kPieceBytes = 2 << 20;        // a page of a .beton file is several readers' work
constexpr uint64_t kRemotePieceBytes = 8 << 20;  // a request
constexpr uint64_t kGapBytes = 32 << 10;  // reading so much more costs less than another request
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Pages of memory that this thread has waited for, in its life.
int64_t page_waits() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

/// A window of a quasi-random order is touched all over by its first samples: it has to be there
/// when the threads leave the one before.
uint64_t horizon_of(const ReadAheadPlan& plan) {
  if (plan.window_pages == 0 || plan.source.size() == 0) return plan.limits.bytes;
  const auto page = plan.source.extent(0, true);
  const uint64_t page_bytes = page ? page->bytes() : 0;
  return std::max(plan.limits.bytes, page_bytes * static_cast<uint64_t>(plan.window_pages));
}

}  // namespace

std::vector<Extent> merged(std::vector<Extent> extents, uint64_t gap, uint64_t most) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.file, a.begin) < std::pair(b.file, b.begin);
  });
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

RangesAhead::RangesAhead(const ReadAheadPlan& plan, const Sampler& sampler,
                         const LoaderOptions& options, int64_t batches, bool all_epochs)
    : source_(plan.source),
      plan_(plan),
      helps_(plan.source.is_remote()),
      horizon_(horizon_of(plan)),
      walk_(sampler, options, batches, all_epochs),
      wake_at_(kNever),
      readers_(lock_, plan.limits.threads, [this](Lock& lock) { return read_next(lock); }) {}

int64_t RangesAhead::restart(int64_t epoch, int64_t batch) {
  const std::lock_guard guard(lock_);
  forget_plan();
  const int64_t sequence = walk_.restart(epoch, batch);
  if (active_) readers_.wake_all();
  return sequence;
}

void RangesAhead::ask(int64_t epoch) {
  const std::lock_guard guard(lock_);
  if (walk_.ask(epoch) && active_) readers_.wake_all();
}

void RangesAhead::begin(const Task& task) {
  if (!helps_) pass(task);
  if (always()) missed_a_page();
}

/// Readers leave the task's samples to the thread that has begun it, which comes to them as soon.
/// Of a remote source, where the thread would ask for one after another, they help with them.
void RangesAhead::pass(const Task& task) {
  walk_.pass(task.draft->sequence + task.end);
  if (walk_.passed() < wake_at_.load()) return;
  const std::lock_guard guard(lock_);
  wake_at_ = kNever;
  readers_.wake_one();
}

void RangesAhead::bring(const Task& task, int64_t place, int64_t sample, ReadScratch&) {
  if (!plan_.cold) return;
  const int64_t sequence = task.draft->sequence + place;
  if (sequence < planned_begin_ || sequence >= planned_end_) source_.forget(sample, false);
}

void RangesAhead::end(const Task& task, Visit& visit) {
  if (helps_) pass(task);
  constexpr int64_t kTasks = 4;  // asking costs as much as a small image
  if (visit.tasks++ % kTasks != 0) return;
  const int64_t faults = page_waits();
  if (visit.faults >= 0 && faults > visit.faults) missed_a_page();
  visit.faults = faults;
}

bool RangesAhead::always() const { return plan_.limits.quick < 0 || source_.is_remote(); }

void RangesAhead::missed_a_page() {
  readers_.hurry();
  if (active_) return help_lone_reader();
  const std::lock_guard guard(lock_);
  if (active_.exchange(true)) return;
  wait_ = std::abs(plan_.limits.quick);
  reads_ = 0;
  readers_.wake_one();
}

/// What is left to one reader may have to come over the network after all.
void RangesAhead::help_lone_reader() {
  const double since = alone_since_;
  if (since == 0 || steady_seconds() - since < 10 * plan_.limits.quick) return;
  if (alone_since_.exchange(0) == 0) return;
  const std::lock_guard guard(lock_);
  readers_.wake_one();
}

void RangesAhead::forget_plan() {
  ++plans_;
  stretches_.clear(), pieces_.clear(), pages_.clear();
  wake_at_ = kNever;
  planned_begin_ = planned_end_ = 0;
}

/// Whether the threads have to come nearer before more is planned.
bool RangesAhead::is_full() {
  for (;;) {
    const int64_t passed = walk_.passed();
    while (!stretches_.empty() && stretches_.front().end <= passed) stretches_.pop_front();
    const uint64_t bytes =
        std::accumulate(stretches_.begin(), stretches_.end(), uint64_t{0},
                        [](uint64_t sum, const Stretch& one) { return sum + one.bytes; });
    if (stretches_.empty() || bytes < horizon_) return false;
    wake_at_ = stretches_.front().end;
    if (walk_.passed() < wake_at_) return true;  // else it was passed before that was known
  }
}

/// Of whole pages, each is read once in its window.
bool RangesAhead::is_new_page(const Extent& page) {
  const auto same = [&](const Extent& other) {
    return other.file == page.file && other.begin == page.begin;
  };
  if (std::find_if(pages_.begin(), pages_.end(), same) != pages_.end()) return false;
  pages_.push_back(page);
  if (std::ssize(pages_) > plan_.window_pages) pages_.pop_front();
  return true;
}

/// Adds to the extents what is to be read for a sample. Lets go of the lock while the source looks
/// into the file's table, which storage may have to send first.
void RangesAhead::plan_sample(Lock& lock, int64_t sample, uint64_t& bytes,
                              std::vector<Extent>& extents) {
  const bool pages = plan_.window_pages > 0;
  std::optional<Extent> own, wanted;
  {
    const ReaderThreads::Unlocked meanwhile(lock);
    own = source_.extent(sample, false);
    wanted = own && pages ? source_.extent(sample, true) : own;
  }
  bytes += own ? std::max(own->bytes(), kLeastBytes) : kLeastBytes;
  if (!wanted || (pages && !is_new_page(*wanted))) return;
  if (plan_.cold) source_.forget(sample, pages);
  extents.push_back(*wanted);
}

/// False where there is nothing to plan now.
bool RangesAhead::plan_stretch(Lock& lock) {
  if (is_full()) return false;
  const int64_t plan = plans_;
  Stretch stretch{-1, 0, 0};
  std::vector<Extent> extents;
  for (int64_t i = 0; i < kStretchSamples && stretch.bytes < kStretchBytes; ++i) {
    const auto next = walk_.next();
    if (!next) break;
    if (stretch.begin < 0) stretch.begin = next->sequence;
    stretch.end = next->sequence + 1;
    plan_sample(lock, next->sample, stretch.bytes, extents);
    if (plan != plans_) return true;  // started anew meanwhile
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

/// By one reader at a time.
bool RangesAhead::plan_more(Lock& lock) {
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

bool RangesAhead::read_next(Lock& lock) {
  if (!active_) return false;
  while (!pieces_.empty() && pieces_.front().end <= walk_.passed()) pieces_.pop_front();
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

/// One reader does for all then: of a remote source, what has been fetched before.
bool RangesAhead::comes_quickly() const { return reads_ > 16 && wait_ <= plan_.limits.quick / 4; }

void RangesAhead::note(double seconds, uint64_t bytes) {
  const double wait = seconds - static_cast<double>(bytes) * 0.25e-9;  // memory: 4 GB a second
  wait_ = moved_wait(wait_, wait, plan_.limits, 8);
  ++reads_;
  if (comes_quickly() && !always()) active_ = false;
}

}  // namespace composer
