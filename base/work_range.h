// Ranges of work on threads that know nothing of LibTorch, for whoever records times.
#pragma once

#include <string_view>

namespace composer {

/// Records ranges. Functions may be called by several threads at once.
class RangeRecorder {
 public:
  virtual ~RangeRecorder() = default;

  /// Whether anybody wants ranges now.
  virtual bool listens() const = 0;
  /// A range begins on the calling thread. lasting: it may take seconds. Null: it is not recorded.
  virtual void* begin(std::string_view name, bool lasting) = 0;
  /// The range that begin() gave ends, on the same thread. range: not null.
  virtual void end(void* range) = 0;
};

/// All ranges of the process go to it from then on; without one they go nowhere. It must outlive
/// all of them.
void record_ranges(RangeRecorder* recorder);

/// Whether anybody wants ranges now: a thread asks once for many short ones.
bool ranges_are_recorded();

/// From its making to its end.
class WorkRange {
 public:
  /// name: stays valid for the range's life. lasting: it may take seconds.
  explicit WorkRange(std::string_view name, bool lasting = false);
  ~WorkRange();
  WorkRange(const WorkRange&) = delete;
  WorkRange& operator=(const WorkRange&) = delete;

 private:
  RangeRecorder* recorder_;
  void* range_;
};

}  // namespace composer
