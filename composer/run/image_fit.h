// Checks before a run whether a network fits its images.
#pragma once

#include <optional>
#include <string>

#include "composer/loop/loader.h"
#include "composer/recipe/options.h"
#include "nn/network/model.h"

namespace composer {

/// The channels that the network's first convolution takes; nothing for a network without
/// convolutions.
std::optional<int64_t> image_channels(const Model& model);

/// UserError if a layer of the network would get no pixels from the loader's images. `model` is on
/// the CPU.
void check_image_size(Model& model, const Loader& loader);

/// A warning for images that are smaller than the network's stride; empty for others.
std::string image_size_warning(const Model& model, ImageSize size);

/// UserError if the run would have a batch or microbatch of one sample, for which batch
/// normalisation would get one value per channel. Does not check a run that freezes parameters,
/// where the first step would fail. `model` is on the CPU.
void check_single_samples(Model& model, const Loader& loader, const TrainerOptions& options);

}  // namespace composer
