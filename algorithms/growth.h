// How what starts small grows over a run: what progressive_resizing and progressive_batch_size
// share.
#pragma once

namespace composer {

/// `initial` while less than the share `delay` of training is done, 1 in the share `finetune` at
/// its end, a straight line between. All in [0, 1], delay + finetune at most 1.
double grown_scale(double elapsed, double initial, double delay, double finetune);

}  // namespace composer
