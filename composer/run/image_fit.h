// Whether a network suits the images that it is to be trained with, found before the run.
#pragma once

#include <optional>
#include <string>

#include "composer/loop/loader.h"
#include "composer/recipe/options.h"
#include "nn/network/model.h"

namespace composer {

/// Of the images that the network's first convolution takes; nothing for a network without one.
std::optional<int64_t> image_channels(const Model& model);

/// Throws UserError where a layer of the network would get no pixels from the loader's images.
/// `model` is on the CPU.
void check_image_size(Model& model, const Loader& loader);

/// What speaks against images that are smaller than the network's stride; empty for others.
std::string image_size_warning(const Model& model, ImageSize size);

/// Throws UserError where the run comes to a batch or microbatch of one sample, of which batch
/// normalisation would get one value a channel; not where parameters are to be frozen, of which
/// the run tells. `model` is on the CPU.
void check_single_samples(Model& model, const Loader& loader, const TrainerOptions& options);

}  // namespace composer
