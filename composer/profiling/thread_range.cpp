#include "composer/profiling/thread_range.h"

#include <atomic>
#include <memory>
#include <new>

#include "composer/profiling/thread_ranges.h"

namespace composer {
namespace {

std::atomic<int64_t> traces_left;

}  // namespace

void leave_ranges_of_trace() { ++traces_left; }

ThreadRange::ThreadRange(std::string_view name) : trace_(traces_left) {
  new (storage_) at::RecordFunction(at::RecordScope::USER_SCOPE);
  if (range().isActive()) range().before(name);
}

/// A range that is never destroyed ends for nobody but the sums of its thread.
ThreadRange::~ThreadRange() {
  if (trace_ == traces_left)
    std::destroy_at(&range());
  else if (range().isActive())
    ThreadRanges::of_this_thread().end(range());
}

}  // namespace composer
