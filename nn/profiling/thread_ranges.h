// Ranges of threads, and their sums per thread: a thread writes its sums without a lock, any thread
// may read them.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/profiling/range_totals.h"

namespace composer {

/// Ranges of users (RECORD_USER_SCOPE), or operators and nodes of the backward pass. Nesting is
/// counted for each kind separately.
enum class RangeKind : size_t { of_users, of_operators };

/// Prefix of the ranges of whole steps, which are not summed.
inline constexpr std::string_view step_range = "ProfilerStep#";

/// Sums of one thread's ranges since its first range.
class ThreadRanges {
 public:
  ThreadRanges();
  ~ThreadRanges();
  ThreadRanges(const ThreadRanges&) = delete;
  ThreadRanges& operator=(const ThreadRanges&) = delete;

  static ThreadRanges& of_this_thread();

  /// A range that begins several times, for several listeners, counts once. Ranges that may end in
  /// another thread do not count.
  void begin(const at::RecordFunction& range);
  void end(const at::RecordFunction& range);

  RangeTotal total(RangeKind kind, std::string_view name) const;
  RangeTotals totals(RangeKind kind) const;
  /// Totals of all threads except `but`, including threads that have ended.
  static RangeTotals of_all(RangeKind kind, const ThreadRanges* but = nullptr);

 private:
  /// A number that one thread adds to and any thread may read.
  class Sum {
   public:
    void add(int64_t amount) { value_.store(value() + amount, std::memory_order_relaxed); }
    int64_t value() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<int64_t> value_ = 0;
  };

  struct Sums {
    Sum calls, nanoseconds, self_nanoseconds;
    int64_t open = 0;  ///< nesting depth; used by the thread alone

    RangeTotal total() const;
  };

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  struct Open {
    const at::RecordFunction* range;
    Sums* sums;
    int64_t inside;  ///< nanoseconds of the ranges inside
    int64_t begin;
  };

  struct Kind {
    std::vector<Open> open;
    /// The thread adds names under the lock.
    std::unordered_map<std::string, Sums, Hash, std::equal_to<>> sums;

    RangeTotals totals() const;
  };

  /// The registry of all threads. Its lock guards the lists and the names; a range whose name the
  /// thread already has does not take it.
  struct Threads;
  static Threads& threads();

  Kind& kind_of(const at::RecordFunction& range);
  const Kind& kind(RangeKind kind) const { return kinds_[static_cast<size_t>(kind)]; }
  Sums& sums_of(Kind& kind, std::string_view name);

  std::array<Kind, 2> kinds_;
};

/// A user-scope range that may still be open when a trace ends, as in threads beside the training
/// thread. Such a range is left out of the next trace, where LibTorch would write to memory of the
/// previous one. The training thread uses RECORD_USER_SCOPE.
class ThreadRange {
 public:
  /// lasting: the range may take seconds. Where daemons may make traces, all traces leave it out,
  /// as the end of a daemon's trace is not reported.
  explicit ThreadRange(std::string_view name, bool lasting = false);
  ~ThreadRange();
  ThreadRange(const ThreadRange&) = delete;
  ThreadRange& operator=(const ThreadRange&) = delete;

 private:
  at::RecordFunction& range() { return *reinterpret_cast<at::RecordFunction*>(storage_); }

  const bool only_summed_;  ///< true: traces leave it out
  const int64_t trace_;     ///< number of traces that had ended when it began
  alignas(at::RecordFunction) std::byte storage_[sizeof(at::RecordFunction)];
};

/// Makes the ranges of threads without LibTorch (base/work_range.h) ThreadRanges from now on.
void record_work_ranges();

/// Called before LibTorch ends a trace.
void leave_ranges_of_trace();

/// Called once daemons may make traces.
void leave_lasting_ranges_out();

}  // namespace composer
