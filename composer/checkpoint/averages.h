// Averages of the weights that algorithms keep in checkpoints, as ema and swa do.
#pragma once

#include <string>
#include <vector>

#include "composer/checkpoint/checkpoint.h"
#include "composer/recipe/registry.h"

namespace composer {

/// The registered algorithms that average the weights.
std::vector<std::string> averaging_algorithms();

/// Whether the algorithm changes what a prediction computes.
bool acts_on_predictions(const Component& algorithm);

/// What an evaluation of the checkpoint computes with: the algorithm whose average takes the
/// weights' place meanwhile, else "model", whose own it takes.
std::string weights_of_evaluation(const Checkpoint& checkpoint);

/// The model's tensors with those that `algorithm` averaged in their place; of "model" the model's.
/// UserError naming `path` where the checkpoint has no such average.
std::map<std::string, at::Tensor> weights_of(const Checkpoint& checkpoint,
                                             const std::string& algorithm, const std::string& path);

}  // namespace composer
