// The way of a batch from a loader to the network.
#pragma once

#include <optional>

#include "composer/loader.h"
#include "composer/state.h"

namespace composer {

/// loader.next(), in the profiler's range "dataloader".
std::optional<Batch> next_batch(Loader& loader);

/// `batch`, uint8 [N, H, W, C], on the run's device, normalised, in the run's memory format.
Batch to_device(const Batch& batch, const Normalization& normalization, const State& state);

}  // namespace composer
