#include "algorithms/all.h"

#include "algorithms/blurpool.h"
#include "algorithms/channels_last.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/progressive_resizing.h"

namespace composer {

void add_builtin_algorithms(Registry& registry) {
  auto& algorithms = registry.algorithms;
  algorithms.add<BlurPool>("blurpool",
                           "blurs before every downsampling, for shift invariance and accuracy");
  algorithms.add<ChannelsLast>("channels_last",
                               "channels-last memory order, for faster convolutions");
  algorithms.add<LabelSmoothing>("label_smoothing",
                                 "spreads a share of each label over all classes");
  algorithms.add<ProgressiveResizing>("progressive_resizing",
                                      "trains on small images first and lets them grow");
}

}  // namespace composer
