// The subcommand model: the layers of a network and their costs.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cost_table.h"
#include "composer/run/assemble.h"
#include "composer/run/image_fit.h"
#include "models/all.h"
#include "nn/device/device.h"
#include "nn/network/layer.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// A network and the size of its input.
struct ExaminedModel {
  std::string name;
  std::shared_ptr<Model> model;
  ImageSize image;
  int64_t batch_size = 1;
};

/// The names of named_models() and of the registry.
std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& named : named_models()) names.push_back(named.name);
  for (const auto& name : registry().models.names())
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

/// The network of that name. UserError for an unknown name.
NamedModel find_named(const std::string& name) {
  const auto found = std::ranges::find(named_models(), name, &NamedModel::name);
  if (found != named_models().end()) return *found;
  if (registry().models.contains(name)) return {{name, {}}, name, {}};
  const auto names = known_names();
  throw UserError("composer model info: no network '" + name + "'" + did_you_mean(name, names) +
                  " There are: " + joined(names));
}

ExaminedModel of_name(const std::string& name) {
  const auto named = find_named(name);
  const auto component = registry().models.make(named.component);
  auto parameters = Value::map();
  for (const auto& [key, value] : named.parameters) parameters.set(key, Value::scalar(value));
  Problems problems;
  read_fields(parameters, component->fields(), "model." + named.component, problems);
  if (!problems.empty()) throw UserError(lines(problems));
  seed_generator(0);
  return {name, component->build(), named.image, 1};
}

/// The network that the recipe trains, after surgery. Needs neither data nor weights.
ExaminedModel of_recipe(const std::string& file, const Words& overrides) {
  auto recipe = resolve(find_recipe(file), overrides);
  recipe.options.device = "cpu";
  recipe.options.precision = "fp32";
  recipe.options.load_path.clear();
  recipe.options.load_ignore.clear();
  leave_no_run(recipe.options);
  recipe.callbacks.clear();
  Trainer trainer(assemble_model(recipe));
  trainer.prepare();
  return {file, trainer.state().model, build_dataset(recipe, true)->image_size(),
          recipe.options.train_batch_size};
}

ordered_json json_of(const Cost& cost, const ReceptiveField& field) {
  return {{"parameters", cost.parameters},
          {"trainable_parameters", cost.trainable_parameters},
          {"flops_forward", cost.flops_forward},
          {"flops_step", cost.flops_step},
          {"activation_bytes", cost.activation_bytes},
          {"receptive_field", field.size},
          {"sees_whole_image", field.whole}};
}

ordered_json json_of(const ExaminedModel& subject, const std::vector<int64_t>& input,
                     const NetworkCost& cost, const std::vector<LayerCost>& layers) {
  ordered_json all{{"name", subject.name}, {"batch_size", subject.batch_size}, {"input", input}};
  all.update(json_of(cost, cost.receptive_field));
  auto& lines = all["layers"] = ordered_json::array();
  for (const auto& layer : layers) {
    ordered_json line{
        {"layer", layer.layer}, {"operations", layer.operations}, {"output", layer.output}};
    line.update(json_of(layer, layer.receptive_field));
    lines.push_back(std::move(line));
  }
  return all;
}

void print_network(const ExaminedModel& subject, const std::vector<int64_t>& input,
                   const NetworkCost& cost, const std::vector<LayerCost>& layers) {
  const auto short_text = [](int64_t value) { return short_number(static_cast<double>(value)); };
  std::cout << subject.name << ", input " << by_x(input) << "\n\n";
  for (const auto& line : cost_table(layers, terminal_columns())) std::cout << line << '\n';
  std::cout << "\nparameters        " << short_text(cost.parameters);
  if (const int64_t frozen = cost.parameters - cost.trainable_parameters; frozen > 0)
    std::cout << ", " << short_text(frozen) << " of them not trained";
  const auto flops = [&](const char* name, int64_t count) {
    std::cout << '\n' << name << short_text(count) << "FLOPs";
    if (subject.batch_size > 1)
      std::cout << ", " << short_text(count / subject.batch_size) << "FLOPs an image";
  };
  flops("forward           ", cost.flops_forward);
  flops("training step     ", cost.flops_step);
  std::cout << "\nkept activations  " << short_text(cost.activation_bytes) << "B, in float32"
            << "\nreceptive field   "
            << (cost.receptive_field.whole
                    ? "the whole image"
                    : by_x(cost.receptive_field.size) + " pixels, every " +
                          by_x(cost.receptive_field.stride) + ", at the last convolution")
            << '\n';
}

Graph graph_of(const ExaminedModel& subject, const std::vector<int64_t>& input) {
  try {
    return record(*subject.model, at::zeros(input));
  } catch (const LayerError& error) {
    throw UserError("composer model info: " + subject.name + ": " + error.what());
  }
}

int model_info_command(const Words& words) {
  CLI::App app(
      "Shows a network layer by layer: parameters, FLOPs of a forward pass and of a training step\n"
      "(convolutions and matrix products, a multiply-add is two), bytes of activations that a "
      "step\n"
      "keeps for the backward pass, receptive field. All are for a batch.\n"
      "  composer model info NAME      a network by torchvision's name, or of `composer list "
      "models`\n"
      "  composer model info -f RECIPE the one that a recipe trains, after surgery",
      "model info");
  std::string file;
  std::optional<int64_t> batch_size, resolution;
  add_recipe(app, file);
  app.add_option("--batch_size", batch_size, "images (default: 1, with -f its train_batch_size)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--resolution", resolution, "pixels a side (default: the usual, with -f its own)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 14));
  const auto& json = add_json(app);
  app.footer("With -f any key of the recipe can be given as --dotted.key VALUE.");
  if (!parse(app, words)) return 0;

  const auto others = app.remaining();
  if (file.empty() && others.empty())
    throw UserError("composer model info: give the name of a network, or -f RECIPE");
  if (file.empty() && (others.size() > 1 || others[0].starts_with('-')))
    throw UserError("composer model info: takes one name, and keys of a recipe only with -f: '" +
                    joined(others, " ") + "'");
  auto subject = file.empty() ? of_name(others[0]) : of_recipe(file, others);
  if (resolution) subject.image = {*resolution, *resolution};
  if (batch_size) subject.batch_size = *batch_size;
  if (subject.image == ImageSize{})
    throw UserError("composer model info: " + subject.name +
                    " does not tell its image size; give --resolution");

  auto& model = *subject.model;
  std::vector<int64_t> input{1, image_channels(model).value_or(3), subject.image.height,
                             subject.image.width};
  const auto graph = graph_of(subject, input);
  const auto cost = cost_of(graph, model, subject.batch_size);
  const auto layers = layers_of(graph, cost, subject.batch_size);
  input[0] = subject.batch_size;
  if (json)
    std::cout << json_line(json_of(subject, input, cost, layers)) << '\n';
  else
    print_network(subject, input, cost, layers);
  return 0;
}

const CommandTable model_actions{{"info", model_info_command}};

}  // namespace

int model_command(const Words& words) { return dispatch("model", model_actions, words); }

}  // namespace composer
