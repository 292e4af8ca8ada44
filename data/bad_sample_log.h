// The samples of a loader that cannot be read, as the log names them.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "composer/loader.h"

namespace composer {

/// Functions may be called by several threads at once.
class BadSampleLog {
 public:
  explicit BadSampleLog(OnBadSample what_is_done) : what_is_done_(what_is_done) {}

  /// what: the sample's name and the reason. Each sample is named once, and twenty at most.
  void add(const std::string& what);

 private:
  const OnBadSample what_is_done_;
  std::mutex lock_;
  std::set<std::string> added_;
};

}  // namespace composer
