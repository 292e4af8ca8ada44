#include "algorithms/parts/growth.h"

namespace composer {

double grown_scale(double elapsed, double initial, double delay, double finetune) {
  if (elapsed < delay) return initial;
  const double past_delay = elapsed - delay, growing = 1 - finetune - delay;
  if (past_delay >= growing) return 1;
  return initial + (1 - initial) * past_delay / growing;
}

std::string check_shares(double delay_fraction, double finetune_fraction) {
  constexpr double rounding = 1e-9;
  return delay_fraction + finetune_fraction <= 1 + rounding
             ? ""
             : "delay_fraction + finetune_fraction must be at most 1\n";
}

}  // namespace composer
