// The way of a batch from a loader to the network.
#pragma once

#include <optional>

#include "composer/loader.h"
#include "composer/state.h"

namespace composer {

/// loader.next(), in the profiler's range "dataloader".
std::optional<RawBatch> next_batch(Loader& loader);

/// `batch`, which is on the run's device, in the run's memory format.
Batch normalized(const RawBatch& batch, const Normalization& normalization, const State& state);

}  // namespace composer
