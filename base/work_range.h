// Named ranges of work, for profilers, on threads without LibTorch.
#pragma once

#include <string_view>

namespace composer {

/// Records ranges. Functions may be called by several threads at once.
class RangeRecorder {
 public:
  virtual ~RangeRecorder() = default;

  /// Whether ranges are recorded now.
  virtual bool listens() const = 0;
  /// Begins a range on the calling thread. lasting: it may take seconds. Returns null for a range
  /// that is not recorded.
  virtual void* begin(std::string_view name, bool lasting) = 0;
  /// Ends a range of begin(), on the same thread. range: not null.
  virtual void end(void* range) = 0;
};

/// Later ranges of the process go to `recorder`, which must outlive them; null: they are not
/// recorded.
void record_ranges(RangeRecorder* recorder);

/// Whether ranges are recorded now. A thread asks once for many short ranges.
bool ranges_are_recorded();

/// A range from the construction to the destruction of this object.
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
