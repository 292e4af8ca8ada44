// The samples of a loader that cannot be read, as the log names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "base/loading/loader_options.h"

namespace composer {

/// Functions may be called by several threads at once.
class BadSampleLog {
 public:
  /// most: that are named.
  BadSampleLog(OnBadSample what_is_done, size_t most) : what_is_done_(what_is_done), most_(most) {}

  /// what: the sample's name and the reason. Each sample is named once.
  void add(const std::string& what);

  /// Says how many of so many samples, all of which were asked for, were skipped, where more are
  /// than at the last time. RunError where all were. To be called where all are named.
  void sum_up(int64_t samples);

 private:
  const OnBadSample what_is_done_;
  const size_t most_;
  std::mutex lock_;
  std::set<std::string> added_;
  int64_t told_ = 0;  ///< by sum_up()
};

}  // namespace composer
