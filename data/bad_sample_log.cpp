#include "data/bad_sample_log.h"

#include "composer/logging/log.h"

namespace composer {

void BadSampleLog::add(const std::string& what) {
  constexpr size_t kMost = 20;
  const std::lock_guard guard(lock_);
  if (added_.size() > kMost || !added_.insert(what).second) return;
  const std::string done =
      what_is_done_ == OnBadSample::skip ? "skipped: " : "replaced by another: ";
  log::warn(added_.size() > kMost
                ? "more bad samples are not listed; `composer data verify` lists all"
                : done + what);
}

}  // namespace composer
