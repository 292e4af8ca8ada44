#include "algorithms/activation_checkpointing.h"

#include "base/error.h"
#include "base/log.h"
#include "base/name_pattern.h"
#include "base/text.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/surgery.h"

namespace composer {
namespace {

constexpr const char* key = "algorithms.activation_checkpointing";

bool within(const std::string& path, const std::string& block) {
  return path.starts_with(block + ".");
}

std::string names_of(const std::vector<PlacedLayer>& blocks) {
  std::vector<std::string> names;
  for (const auto& block : blocks) names.push_back(block.path);
  return names.empty() ? "none" : joined(names);
}

void check_patterns(const std::vector<std::string>& patterns,
                    const std::vector<PlacedLayer>& blocks) {
  for (const auto& pattern : patterns)
    if (std::ranges::none_of(blocks, [&](const auto& block) { return fits(block.path, pattern); }))
      throw UserError(std::string(key) + ".layers: '" + pattern +
                      "' fits no block of the model; its blocks: " + names_of(blocks));
}

}  // namespace

std::vector<std::string> apply_activation_checkpointing(
    Block& model, const ActivationCheckpointing::Params& params) {
  auto blocks = placed_layers(model);
  std::erase_if(blocks, [](const PlacedLayer& placed) {
    return dynamic_cast<Block*>(placed.layer) == nullptr;
  });
  check_patterns(params.layers, blocks);
  std::vector<std::string> outermost, chosen;
  for (const auto& [path, layer, next, slot] : blocks) {
    const bool wanted = params.layers.empty() ? dynamic_cast<ResidualBlock*>(layer) != nullptr
                                              : fits_any(path, params.layers);
    if (!wanted || (!outermost.empty() && within(path, outermost.back()))) continue;
    outermost.push_back(path);
    if (static_cast<int64_t>(outermost.size()) % params.every != 0) continue;
    slot->recompute(true);
    chosen.push_back(path);
  }
  if (outermost.empty())
    throw UserError(std::string(key) + ": the model has no residual block; name others: " + key +
                    ".layers: [" + names_of(blocks) + "]");
  if (chosen.empty())
    throw UserError(std::string(key) + ".every: " + std::to_string(params.every) +
                    " leaves none of " + std::to_string(outermost.size()) + " blocks");
  return chosen;
}

Compatibility ActivationCheckpointing::compatibility() {
  return {.excludes = {{"no_op_model", "its model has no blocks"}}, .needs = {}};
}

void ActivationCheckpointing::init(State& state) {
  blocks_ = apply_activation_checkpointing(*state.model, params_);
  log::info("activation_checkpointing: " + std::to_string(blocks_.size()) +
            " blocks are computed again in the backward pass");
  state.logger->log("activation_checkpointing/num_blocks", static_cast<double>(blocks_.size()));
}

std::vector<std::string> ActivationCheckpointing::report() const {
  std::vector<std::string> lines;
  for (const auto& block : blocks_)
    lines.push_back(block + ": computed again in the backward pass");
  return lines;
}

}  // namespace composer
