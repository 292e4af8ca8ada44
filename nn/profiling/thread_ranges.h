// The sums of each thread's ranges: written by the thread without a lock, read by any.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/profiling/range_totals.h"

namespace composer {

/// Ranges of users (RECORD_USER_SCOPE), or operators and nodes of the backward pass. To each kind
/// the other is not there.
enum class RangeKind : size_t { of_users, of_operators };

/// Begins the names of the ranges of whole steps, which are not summed.
inline constexpr std::string_view step_range = "ProfilerStep#";

/// Sums of one thread's ranges since its first one.
class ThreadRanges {
 public:
  ThreadRanges();
  ~ThreadRanges();
  ThreadRanges(const ThreadRanges&) = delete;
  ThreadRanges& operator=(const ThreadRanges&) = delete;

  static ThreadRanges& of_this_thread();

  /// A range that begins several times, for several listeners, counts once. Those that may end in
  /// another thread do not count.
  void begin(const at::RecordFunction& range);
  void end(const at::RecordFunction& range);

  RangeTotal total(RangeKind kind, std::string_view name) const;
  RangeTotals totals(RangeKind kind) const;
  /// Of all threads, those that have ended too, without `but`.
  static RangeTotals of_all(RangeKind kind, const ThreadRanges* but = nullptr);

 private:
  /// One thread adds, any may read.
  class Sum {
   public:
    void add(int64_t amount) { value_.store(value() + amount, std::memory_order_relaxed); }
    int64_t value() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<int64_t> value_ = 0;
  };

  struct Sums {
    Sum calls, nanoseconds, self_nanoseconds;
    int64_t open = 0;  ///< of the thread alone

    RangeTotal total() const;
  };

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  struct Open {
    const at::RecordFunction* range;
    Sums* sums;
    int64_t inside;  ///< nanoseconds of the ranges within
    int64_t begin;
  };

  struct Kind {
    std::vector<Open> open;
    /// The thread adds names under the lock.
    std::unordered_map<std::string, Sums, Hash, std::equal_to<>> sums;

    RangeTotals totals() const;
  };

  /// Of all threads. The lock guards the lists and the names; a range whose name the thread has had
  /// before does not take it.
  struct Threads;
  static Threads& threads();

  Kind& kind_of(const at::RecordFunction& range);
  const Kind& kind(RangeKind kind) const { return kinds_[static_cast<size_t>(kind)]; }
  Sums& sums_of(Kind& kind, std::string_view name);

  std::array<Kind, 2> kinds_;
};

}  // namespace composer
