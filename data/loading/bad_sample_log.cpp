#include "data/loading/bad_sample_log.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace composer {

void BadSampleLog::add(const std::string& what) {
  const std::lock_guard guard(lock_);
  if (added_.size() > most_ || !added_.insert(what).second) return;
  const std::string done =
      what_is_done_ == OnBadSample::skip ? "skipped: " : "replaced by another: ";
  log::warn(added_.size() > most_
                ? "more bad samples are not listed; `composer data verify` lists all"
                : done + what);
}

void BadSampleLog::sum_up(int64_t samples) {
  const std::lock_guard guard(lock_);
  if (added_.empty() || what_is_done_ != OnBadSample::skip) return;
  const auto of = " of " + quantity(samples, "sample") + " ";
  const auto bad = std::ssize(added_);
  if (bad >= samples) throw RunError("not one" + of + "can be read");
  if (std::exchange(told_, bad) == bad) return;
  log::warn(std::to_string(bad) + of + (bad == 1 ? "was skipped: it" : "were skipped: they") +
            " cannot be read");
}

}  // namespace composer
