// The subcommand checkpoint: shows what a checkpoint holds, and takes weights out of it.
#include "composer/storage/checkpoint.h"

#include <filesystem>
#include <iostream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/recipe/params.h"
#include "composer/recipe/registry.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/provenance.h"
#include "composer/storage/safetensors.h"
#include "composer/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// What the algorithm puts before the model's names in its state, if it averages the weights.
std::string prefix_of(const std::string& algorithm) {
  const auto& algorithms = registry().algorithms;
  return algorithms.contains(algorithm) ? algorithms.find(algorithm)->average_prefix() : "";
}

/// The algorithms that average the weights.
std::vector<std::string> averaging() {
  auto names = registry().algorithms.names();
  std::erase_if(names, [](const auto& name) { return prefix_of(name).empty(); });
  return names;
}

/// The model's tensors with those that `algorithm` averaged in their place.
TensorMap averaged(const Checkpoint& checkpoint, const std::string& algorithm,
                   const std::string& path) {
  const auto part = checkpoint.parts.find(path_of(ChoiceKey::algorithms, algorithm));
  if (part == checkpoint.parts.end())
    throw UserError(path + ": has no weights of " + algorithm +
                    ": the run was without it, or had not come to its start");
  const auto prefix = prefix_of(algorithm);
  TensorMap tensors = checkpoint.model;
  bool any = false;
  for (const auto& [name, tensor] : part->second.tensors) {
    if (!name.starts_with(prefix)) continue;
    const auto place = tensors.find(name.substr(prefix.size()));
    if (place == tensors.end())
      throw UserError(path + ": the model has no tensor for '" + name + "' of " + algorithm);
    place->second = tensor;
    any = true;
  }
  if (!any)
    throw UserError(path + ": holds no average of " + algorithm +
                    ": either nothing is averaged yet, or the average is the model by now; use "
                    "--weights model");
  return tensors;
}

void export_weights(const std::string& path, const std::string& weights,
                    const std::string& output) {
  if (output.empty()) throw UserError("composer checkpoint export: --output: missing");
  if (fs::path(output).extension() != ".safetensors")
    throw UserError("--output: " + output + " must end in .safetensors");
  const auto folder = fs::absolute(output).parent_path();
  if (!fs::is_directory(folder)) throw UserError("--output: there is no folder " + folder.string());
  const auto checkpoint = load_checkpoint(path);
  const auto tensors = weights == "model" ? checkpoint.model : averaged(checkpoint, weights, path);
  remove_partial_files(folder);
  write_safetensors(output, tensors,
                    to_metadata({checkpoint.recipe, checkpoint.network, checkpoint.class_names}));
  log::info("wrote " + std::to_string(tensors.size()) + " tensors to " + output);
}

}  // namespace

int checkpoint_command(const Words& words) {
  CLI::App app(
      "Shows what a checkpoint holds (info), or writes its weights to a file that --load_path and\n"
      "Python's safetensors read (export).",
      "checkpoint");
  std::string action, path, output, weights = "model";
  app.add_option("action", action, "info or export")->required();
  app.add_option("path", path, "a checkpoint folder")->required();
  const auto* to = app.add_option("--output", output, "export: the .safetensors file to write");
  const auto* which =
      app.add_option("--weights", weights,
                     "export: model, or the algorithm whose average of the weights is wanted (" +
                         joined(averaging(), ", ") + "), under the model's names");
  if (!parse(app, words)) return 0;
  if (action == "info") {
    if (to->count() + which->count() > 0)
      throw UserError("composer checkpoint info: takes neither --output nor --weights");
    std::cout << describe_checkpoint(path);
  } else if (action == "export") {
    if (weights != "model" && prefix_of(weights).empty())
      throw UserError("--weights: must be model, or an algorithm that averages the weights (" +
                      joined(averaging(), ", ") + "), not '" + weights + "'");
    export_weights(path, weights, output);
  } else {
    throw UserError("composer checkpoint: unknown action '" + action + "'" +
                    suggestion(action, {"info", "export"}));
  }
  return 0;
}

}  // namespace composer
