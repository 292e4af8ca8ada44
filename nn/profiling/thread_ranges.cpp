#include "nn/profiling/thread_ranges.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <new>

#include "base/work_range.h"

namespace composer {
namespace {

int64_t steady_nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void add_totals(RangeTotals& totals, const RangeTotals& more) {
  for (const auto& [name, one] : more) {
    auto& total = totals[name];
    total.calls += one.calls;
    total.seconds += one.seconds;
    total.self_seconds += one.self_seconds;
  }
}

std::atomic<int64_t> traces_left;
std::atomic<bool> leaves_lasting_out;

class WorkRangeRecorder final : public RangeRecorder {
 public:
  bool listens() const override { return at::hasCallbacks(); }
  void* begin(std::string_view name, bool lasting) override {
    return listens() || lasting ? new ThreadRange(name, lasting) : nullptr;
  }
  void end(void* range) override { delete static_cast<ThreadRange*>(range); }
};

}  // namespace

struct ThreadRanges::Threads {
  std::mutex lock;
  std::vector<const ThreadRanges*> living;
  std::array<RangeTotals, 2> ended;  ///< totals of ended threads, by RangeKind
};

ThreadRanges::Threads& ThreadRanges::threads() {
  static auto& threads = *new Threads;  // threads may end after static objects
  return threads;
}

ThreadRanges::ThreadRanges() {
  const std::lock_guard guard(threads().lock);
  threads().living.push_back(this);
}

ThreadRanges::~ThreadRanges() {
  const std::lock_guard guard(threads().lock);
  std::erase(threads().living, this);
  for (size_t i = 0; i < kinds_.size(); ++i) add_totals(threads().ended[i], kinds_[i].totals());
}

ThreadRanges& ThreadRanges::of_this_thread() {
  thread_local ThreadRanges ranges;
  return ranges;
}

void ThreadRanges::begin(const at::RecordFunction& range) {
  auto& kind = kind_of(range);
  // Each step has a name of its own.
  if (std::string_view(range.name()).starts_with(step_range)) return;
  if (range.isAsync() || (!kind.open.empty() && kind.open.back().range == &range)) return;
  auto& sums = sums_of(kind, range.name());
  ++sums.open;
  kind.open.push_back({&range, &sums, 0, steady_nanoseconds()});
}

void ThreadRanges::end(const at::RecordFunction& range) {
  const int64_t now = steady_nanoseconds();
  auto& open = kind_of(range).open;
  if (open.empty() || open.back().range != &range) return;
  const auto ended = open.back();
  open.pop_back();
  const int64_t taken = now - ended.begin;
  ended.sums->calls.add(1);
  ended.sums->self_nanoseconds.add(taken - ended.inside);
  if (--ended.sums->open == 0) ended.sums->nanoseconds.add(taken);
  if (!open.empty()) open.back().inside += taken;
}

RangeTotals ThreadRanges::totals(RangeKind of) const {
  const std::lock_guard guard(threads().lock);
  return kind(of).totals();
}

RangeTotals ThreadRanges::of_all(RangeKind of, const ThreadRanges* but) {
  const std::lock_guard guard(threads().lock);
  auto totals = threads().ended[static_cast<size_t>(of)];
  for (const auto* thread : threads().living)
    if (thread != but) add_totals(totals, thread->kind(of).totals());
  return totals;
}

RangeTotal ThreadRanges::total(RangeKind of, std::string_view name) const {
  const std::lock_guard guard(threads().lock);
  const auto& sums = kind(of).sums;
  const auto found = sums.find(name);
  return found == sums.end() ? RangeTotal() : found->second.total();
}

RangeTotal ThreadRanges::Sums::total() const {
  return {calls.value(), static_cast<double>(nanoseconds.value()) * 1e-9,
          static_cast<double>(self_nanoseconds.value()) * 1e-9};
}

RangeTotals ThreadRanges::Kind::totals() const {
  RangeTotals totals;
  for (const auto& [name, one] : sums)
    if (one.calls.value() > 0) totals.emplace(name, one.total());
  return totals;
}

ThreadRanges::Kind& ThreadRanges::kind_of(const at::RecordFunction& range) {
  const bool users = range.scope() == at::RecordScope::USER_SCOPE;
  return kinds_[static_cast<size_t>(users ? RangeKind::of_users : RangeKind::of_operators)];
}

ThreadRanges::Sums& ThreadRanges::sums_of(Kind& kind, std::string_view name) {
  if (const auto found = kind.sums.find(name); found != kind.sums.end()) return found->second;
  const std::lock_guard guard(threads().lock);
  return kind.sums[std::string(name)];
}

void record_work_ranges() {
  // Never destroyed: loader threads may outlive all static objects.
  static auto* const recorder = new WorkRangeRecorder;
  record_ranges(recorder);
}

void leave_ranges_of_trace() { ++traces_left; }

void leave_lasting_ranges_out() { leaves_lasting_out = true; }

ThreadRange::ThreadRange(std::string_view name, bool lasting)
    : only_summed_(lasting && leaves_lasting_out), trace_(traces_left) {
  if (only_summed_) {
    new (storage_) at::RecordFunction(at::StepCallbacks(0, at::RecordScope::USER_SCOPE));
    range().before(name);
    ThreadRanges::of_this_thread().begin(range());
  } else {
    new (storage_) at::RecordFunction(at::RecordScope::USER_SCOPE);
    if (range().isActive()) range().before(name);
  }
}

/// A range whose RecordFunction is not destroyed ends only in the sums of its thread.
ThreadRange::~ThreadRange() {
  if (only_summed_) ThreadRanges::of_this_thread().end(range());
  if (only_summed_ || trace_ == traces_left)
    std::destroy_at(&range());
  else if (range().isActive())
    ThreadRanges::of_this_thread().end(range());
}

}  // namespace composer
