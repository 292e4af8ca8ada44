#include "inference/from_checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "composer/assemble.h"
#include "composer/error.h"
#include "composer/logging/json_number.h"
#include "composer/network/outline.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/registry.h"
#include "composer/storage/checkpoint.h"
#include "composer/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// What the algorithm puts before the model's names in its state, if it averages the weights.
std::string prefix_of(const std::string& algorithm) {
  const auto& algorithms = registry().algorithms;
  return algorithms.contains(algorithm) ? algorithms.find(algorithm)->average_prefix() : "";
}

/// The averages that an algorithm keeps, by the model's names; empty where it keeps none.
TensorMap averages_of(const Checkpoint& checkpoint, const std::string& algorithm) {
  TensorMap averages;
  const auto prefix = prefix_of(algorithm);
  const auto part = checkpoint.parts.find(path_of(ChoiceKey::algorithms, algorithm));
  if (prefix.empty() || part == checkpoint.parts.end()) return averages;
  for (const auto& [name, tensor] : part->second.tensors)
    if (name.starts_with(prefix)) averages[name.substr(prefix.size())] = tensor;
  return averages;
}

std::string weights_of_evaluation(const Checkpoint& checkpoint) {
  for (const auto& algorithm : averaging_algorithms())
    if (!averages_of(checkpoint, algorithm).empty()) return algorithm;
  return "model";
}

/// The model's tensors with those that `algorithm` averaged in their place.
TensorMap averaged(const Checkpoint& checkpoint, const std::string& algorithm,
                   const std::string& path) {
  if (!checkpoint.parts.contains(path_of(ChoiceKey::algorithms, algorithm)))
    throw UserError(path + ": has no weights of " + algorithm +
                    ": the run was without it, or had not come to its start");
  TensorMap tensors = checkpoint.model;
  const auto averages = averages_of(checkpoint, algorithm);
  for (const auto& [name, tensor] : averages) {
    const auto place = tensors.find(name);
    if (place == tensors.end())
      throw UserError(path + ": the model has no tensor for '" + name + "' of " + algorithm);
    place->second = tensor;
  }
  if (averages.empty())
    throw UserError(path + ": holds no average of " + algorithm +
                    ": either nothing is averaged yet, or the average is the model by now; use "
                    "--weights model");
  return tensors;
}

Recipe recipe_for_use(const std::string& path, const std::string& text) {
  if (text.empty())
    throw UserError(path +
                    ": was made from C++ without a recipe: nothing tells what its network is");
  auto recipe = resolve({path, text}, {"--load_path", path, "--device", "cpu"}, registry(),
                        {.evaluation = true, .options = {}});
  recipe.options.load_weights_only = true;
  recipe.options.autoresume = false;
  recipe.options.run_name.clear();
  recipe.options.load_ignore.clear();
  recipe.options.load_strict = true;
  return recipe;
}

Preparation preparation_of(const Recipe& recipe, const std::string& path) {
  const auto& set = recipe.val_dataset ? recipe.val_dataset : recipe.train_dataset;
  const auto found = set->build()->preparation(loader_options(recipe.options, false));
  if (!found)
    throw UserError(path + ": its dataset " + set->name() +
                    " does not tell how it prepares images (Dataset::preparation)");
  return *found;
}

void put(const TensorMap& tensors, Model& model) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const auto& places) {
    for (const auto& place : places)
      if (const auto found = tensors.find(place.key()); found != tensors.end())
        place.value().copy_(found->second);
  };
  copy(model.named_parameters()), copy(model.named_buffers());
}

/// Of the evaluation after that batch, as the run's folder around the checkpoint tells; empty where
/// it does not.
std::map<std::string, double> metrics_at(const fs::path& checkpoint, int64_t batch) {
  std::error_code error;
  const auto folder = fs::canonical(checkpoint, error).parent_path().parent_path();
  std::ifstream lines(folder / "metrics.jsonl");
  std::map<std::string, double> metrics;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("event", nlohmann::ordered_json()) != "eval" ||
        json.value("batch", nlohmann::ordered_json()) != batch)
      continue;
    for (const auto& [key, value] : json.items())
      if (key.starts_with("metrics/eval/")) metrics[key] = number_of(value);
  }
  return metrics;
}

}  // namespace

std::vector<std::string> averaging_algorithms() {
  auto names = registry().algorithms.names();
  std::erase_if(names, [](const auto& name) { return prefix_of(name).empty(); });
  return names;
}

TakenNetwork take_network(const std::string& path, std::string weights) {
  if (!weights.empty() && weights != "model" && prefix_of(weights).empty())
    throw UserError("--weights: must be model, or an algorithm that averages the weights (" +
                    joined(averaging_algorithms(), ", ") + "), not '" + weights + "'");
  const auto checkpoint = load_checkpoint(path);
  if (weights.empty()) weights = weights_of_evaluation(checkpoint);
  TakenNetwork taken;
  taken.state = weights == "model" ? checkpoint.model : averaged(checkpoint, weights, path);
  const auto recipe = recipe_for_use(path, checkpoint.recipe);
  auto& network = taken.network;
  network.preparation = preparation_of(recipe, path);
  network.resize_filter = loader_options(recipe.options, false).resize_filter;
  Trainer trainer(assemble_model(recipe));
  trainer.prepare();
  auto& model = *trainer.state().model;
  put(taken.state, model);
  const auto [height, width] = network.preparation.size;
  network.graph = record(model, at::zeros({1, network.preparation.channels, height, width}));
  network.class_names = checkpoint.class_names;
  network.recipe = checkpoint.recipe;
  network.outline = outline(model);
  network.weights = weights;
  network.epoch = checkpoint.time.epoch, network.batch = checkpoint.time.batch;
  network.metrics = metrics_at(path, checkpoint.time.batch);
  return taken;
}

}  // namespace composer
