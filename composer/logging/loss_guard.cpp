#include "composer/logging/loss_guard.h"

#include <cmath>

namespace composer {

void LossGuard::write(const Record& record) {
  for (const auto& [name, value] : record.values) {
    if (name != "loss/train") continue;
    in_a_row_ = std::isfinite(value) ? 0 : in_a_row_ + 1;
    if (in_a_row_ > tolerated_ && !std::exchange(seen_, true)) bad_ = {record.time, value};
  }
}

}  // namespace composer
