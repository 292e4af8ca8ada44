#include "nn/profiling/thread_range.h"

#include <atomic>
#include <memory>
#include <new>

#include "base/work_range.h"
#include "nn/profiling/thread_ranges.h"

namespace composer {
namespace {

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

void record_work_ranges() {
  // Never destroyed: loader threads may outlive all statics.
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

/// A range that is never destroyed ends for nobody but the sums of its thread.
ThreadRange::~ThreadRange() {
  if (only_summed_) ThreadRanges::of_this_thread().end(range());
  if (only_summed_ || trace_ == traces_left)
    std::destroy_at(&range());
  else if (range().isActive())
    ThreadRanges::of_this_thread().end(range());
}

}  // namespace composer
