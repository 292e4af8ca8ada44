#include "base/work_range.h"

#include <atomic>

namespace composer {
namespace {

std::atomic<RangeRecorder*> range_recorder;

}  // namespace

void record_ranges(RangeRecorder* recorder) { range_recorder = recorder; }

bool ranges_are_recorded() {
  const RangeRecorder* recorder = range_recorder;
  return recorder != nullptr && recorder->listens();
}

WorkRange::WorkRange(std::string_view name, bool lasting)
    : recorder_(range_recorder),
      range_(recorder_ != nullptr ? recorder_->begin(name, lasting) : nullptr) {}

WorkRange::~WorkRange() {
  if (range_ != nullptr) recorder_->end(range_);
}

}  // namespace composer
