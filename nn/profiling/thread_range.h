// Ranges of threads that work beside the training thread.
#pragma once

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace composer {

/// A user-scope range that may be open when a trace ends, as those of other threads are: it is then
/// left out of the next trace, where LibTorch would write to memory of the one before. For the
/// training thread RECORD_USER_SCOPE does.
class ThreadRange {
 public:
  /// lasting: it may take seconds. Where daemons make traces it is in none of them: nobody tells
  /// when one of theirs ends.
  explicit ThreadRange(std::string_view name, bool lasting = false);
  ~ThreadRange();
  ThreadRange(const ThreadRange&) = delete;
  ThreadRange& operator=(const ThreadRange&) = delete;

 private:
  at::RecordFunction& range() { return *reinterpret_cast<at::RecordFunction*>(storage_); }

  const bool only_summed_;  ///< no trace has it
  const int64_t trace_;     ///< traces that had ended
  alignas(at::RecordFunction) std::byte storage_[sizeof(at::RecordFunction)];
};

/// Ranges of threads without LibTorch (base/work_range.h) become ThreadRanges from then on.
void record_work_ranges();

/// A trace ends: called before LibTorch ends it.
void leave_ranges_of_trace();

/// Daemons make traces from now on.
void leave_lasting_ranges_out();

}  // namespace composer
