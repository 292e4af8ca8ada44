// How what starts small grows over a run: what progressive_resizing and progressive_batch_size
// share.
#pragma once

#include <string>

namespace composer {

/// `initial` while less than the share `delay` of training is done, 1 in the share `finetune` at
/// its end, a straight line between. All in [0, 1], delay + finetune at most 1.
double grown_scale(double elapsed, double initial, double delay, double finetune);

/// A line for Params::check() where the two shares are more than the run; else "".
std::string check_shares(double delay_fraction, double finetune_fraction);

}  // namespace composer
