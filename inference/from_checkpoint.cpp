#include "inference/from_checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "base/remote/fetched.h"
#include "base/text.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/registry.h"
#include "composer/run/assemble.h"
#include "inference/graph/graph_json.h"
#include "inference/network_folder.h"
#include "nn/network/outline.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

Recipe recipe_for_use(const std::string& path, const std::string& text) {
  if (text.empty())
    throw UserError(path +
                    ": was made from C++ without a recipe: nothing tells what its network is");
  auto recipe = resolve({path, text}, {"--load_path", path, "--device", "cpu"}, registry(),
                        {.evaluation = true, .options = {}});
  use_weights_alone(recipe);
  recipe.options.precision = "fp32";
  recipe.options.save_best.clear();
  recipe.callbacks.clear();
  return recipe;
}

Preparation preparation_of(const Recipe& recipe, const std::string& path) {
  const auto& set = recipe.val_dataset ? recipe.val_dataset : recipe.train_dataset;
  const auto found = set->build()->preparation(recipe.options.dataloader);
  if (!found)
    throw UserError(path + ": its dataset " + set->name() +
                    " does not tell how it prepares images (Dataset::preparation)");
  return *found;
}

void put(const TensorMap& tensors, Model& model) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const auto& items) {
    for (const auto& item : items)
      if (const auto found = tensors.find(item.key()); found != tensors.end())
        item.value().copy_(found->second);
  };
  copy(model.named_parameters()), copy(model.named_buffers());
}

/// The metrics of the evaluation after the batch, from metrics.jsonl of the checkpoint's run.
/// Empty, with a log line, where there are none.
std::map<std::string, double> metrics_at(const fs::path& checkpoint, int64_t batch) {
  std::error_code error;
  const auto folder = fs::canonical(checkpoint, error).parent_path();
  const auto file = folder.parent_path() / "metrics.jsonl";
  std::ifstream lines(folder.filename() == "checkpoints" ? file : fs::path());
  std::map<std::string, double> metrics;
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_foreign<nlohmann::ordered_json>(line);
    if (!json.is_object() || json.value("event", nlohmann::ordered_json()) != "eval" ||
        json.value("batch", nlohmann::ordered_json()) != batch)
      continue;
    for (const auto& [key, value] : json.items())
      if (key.starts_with("metrics/eval/")) metrics[key] = number_of(value);
  }
  if (metrics.empty())
    log::info(checkpoint.string() + ": without metrics: " +
              (lines.is_open()
                   ? file.string() + " has no evaluation after batch " + std::to_string(batch)
                   : "it is not in its run's folder, where metrics.jsonl has them"));
  return metrics;
}

void say_what_stays_behind(const Recipe& recipe) {
  for (const auto& algorithm : recipe.algorithms)
    if (acts_on_predictions(*algorithm) && algorithm->average_prefix().empty())
      log::warn("algorithms." + algorithm->name() +
                ": is no part of the network: what it does around a prediction is not exported, "
                "and metrics of the evaluation are with it");
}

/// The network of the recipe, which loads the weights at `path`.
TakenNetwork taken_by(const Recipe& recipe, const std::string& path, TensorMap state) {
  say_what_stays_behind(recipe);
  TakenNetwork taken{{}, std::move(state)};
  auto& network = taken.network;
  network.preparation = preparation_of(recipe, path);
  network.resize_filter = recipe.options.dataloader.resize_filter;
  network.loss = recipe.options.loss;
  Trainer trainer(assemble_model(recipe));
  trainer.prepare();
  auto& model = *trainer.state().model;
  put(taken.state, model);
  const auto [height, width] = network.preparation.size;
  network.graph = record(model, at::zeros({1, network.preparation.channels, height, width}));
  network.outline = in_use(outline(model));
  return taken;
}

TakenNetwork take_from_checkpoint(const std::string& path, std::string weights) {
  const auto checkpoint = load_checkpoint(path);
  const auto evaluated = weights_of_evaluation(checkpoint);
  if (weights.empty()) weights = evaluated;
  auto taken = taken_by(recipe_for_use(path, checkpoint.recipe), path,
                        weights_of(checkpoint, weights, path));
  auto& network = taken.network;
  network.class_names = checkpoint.class_names;
  network.recipe = checkpoint.recipe;
  network.weights = weights;
  network.epoch = checkpoint.time.epoch, network.batch = checkpoint.time.batch;
  if (weights == evaluated)
    network.metrics = metrics_at(path, checkpoint.time.batch);
  else
    log::info(path + ": without metrics: its evaluation was of the weights of " + evaluated);
  return taken;
}

TakenNetwork take_from_export(const std::string& path, const std::string& weights) {
  TakenNetwork taken{read_network(path), read_weights(weights_file(path))};
  if (!weights.empty() && weights != taken.network.weights)
    throw UserError("--weights: " + path + " holds only those of " + taken.network.weights +
                    "; export the checkpoint that it came from");
  return taken;
}

TakenNetwork take_from_file(const std::string& path, const std::string& weights) {
  const auto ending = fs::path(path).extension();
  if (ending != ".safetensors" && ending != ".pth" && ending != ".pt")
    throw UserError(path +
                    ": is no checkpoint; give a checkpoint folder, or the folder that `composer "
                    "export --format safetensors` wrote");
  const auto told = read_provenance(path);
  if (told.recipe.empty())
    throw UserError(path +
                    ": holds only weights: nothing tells what their network is; give a checkpoint "
                    "folder, or what `composer export` made");
  if (!weights.empty())
    throw UserError("--weights: " + path + " holds one set of weights; leave it out");
  auto taken = taken_by(recipe_for_use(path, told.recipe), path, read_weights(path));
  taken.network.class_names = told.class_names;
  taken.network.recipe = told.recipe;
  log::info(path + ": without metrics, epoch and batch: a file of weights does not tell them");
  return taken;
}

}  // namespace

void use_weights_alone(Recipe& recipe, bool strict) {
  auto& options = recipe.options;
  options.load_weights_only = true;
  options.autoresume = false;
  options.run_name.clear();
  options.load_ignore.clear();
  options.load_strict = strict;
}

TakenNetwork take_network(const std::string& location, const std::string& weights) {
  const std::string path = fetched(location);
  const auto averaging = averaging_algorithms();
  if (!weights.empty() && weights != "model" &&
      std::ranges::find(averaging, weights) == averaging.end())
    throw UserError("--weights: must be model, or an algorithm that averages the weights (" +
                    joined(averaging, ", ") + "), not '" + weights + "'");
  if (weights_file(path) != path) return take_from_export(path, weights);
  if (fs::is_regular_file(path)) return take_from_file(path, weights);
  return take_from_checkpoint(path, weights);
}

LibraryNames names_in(const TakenNetwork& taken, const std::string& library) {
  if (library != "torchvision" && library != "timm")
    throw UserError("--names: must be torchvision or timm, not '" + library + "'" +
                    suggestion(library, {"torchvision", "timm"}));
  if (!taken.network.quantization.empty())
    throw UserError("--names: " + library + " has no quantized networks; export the checkpoint");
  if (taken.network.recipe.empty())
    throw UserError("--names: nothing tells whether " + library +
                    " has this network: it was made from C++ without a recipe");
  const auto recipe = resolve({"the checkpoint's recipe", taken.network.recipe}, {}, registry(),
                              {.evaluation = true, .options = {}});
  const auto plain = build_model(recipe);
  const auto names = plain->names_in(library);
  if (!names)
    throw UserError("--names: " + library + " has no network like " + recipe.model->name() + " (" +
                    plain->describe() +
                    "); without --names the tensors have the names that they have in PyTorch");
  const auto& graph = taken.network.graph;
  if (std::ranges::any_of(graph.operations, [](const auto& operation) {
        return operation.kind == OperationKind::group_norm;
      }))
    log::warn("--names: " + library +
              "'s networks have batch norms unless they are made with another norm_layer; this one "
              "has group norms");
  if (!names->difference.empty()) log::warn("--names: " + library + "'s " + names->difference);
  const auto& image = graph.values[graph.input].shape;
  if (const auto side = std::max(image[2], image[3]);
      names->differs_from > 0 && side >= names->differs_from)
    log::warn("--names: " + library + "'s network computes something else for images of " +
              std::to_string(names->differs_from) + " pixels a side and more, as this one's of " +
              std::to_string(side) + " are");
  if (to_json(graph) == to_json(record(*plain, at::zeros(image)))) return *names;
  const auto changed = differences(taken.network.outline, in_use(outline(*plain)));
  log::warn("--names: " + library + "'s network of these names is another one: " +
            (changed.empty() ? "surgery changed it"
                             : std::to_string(changed.size()) +
                                   " layers differ by surgery, the first " + changed.front()));
  return *names;
}

}  // namespace composer
