// What a resumed run does otherwise than the run that its checkpoint is of.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// One line for each key whose value differs between two resolved recipes (YAML) and may change the
/// weights: "optimizer.sgd.lr: the checkpoint's was 0.1, this run's is 0.01", "algorithms.ema: the
/// checkpoint's run did not have it". Nothing where either is no recipe. Seed, grad_accum and
/// device are left out: a checkpoint has them on its own.
std::vector<std::string> recipe_changes(const std::string& checkpoints, const std::string& runs);

/// The name of the optimizer of a resolved recipe; empty where there is none.
std::string optimizer_of(const std::string& recipe);

/// Those of the network alone, by the key `model`.
std::vector<std::string> model_changes(const std::string& checkpoints, const std::string& runs);

}  // namespace composer
