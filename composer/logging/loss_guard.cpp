#include "composer/logging/loss_guard.h"

#include <cmath>

namespace composer {

void LossGuard::see(const Timestamp& time, double loss) {
  if (time.batch <= last_) return;
  last_ = time.batch;
  in_a_row_ = std::isfinite(loss) ? 0 : in_a_row_ + 1;
  if (in_a_row_ > tolerated_ && !std::exchange(told_, true)) bad_ = {time, loss};
}

void LossGuard::write(const Record& record) {
  for (const auto& [name, value] : record.values)
    if (name == "loss/train") see(record.time, value);
}

}  // namespace composer
