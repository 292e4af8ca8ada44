// The subcommands eval and predict.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/sources.h"
#include "composer/assemble.h"
#include "composer/distributed/rendezvous.h"
#include "composer/error.h"
#include "composer/logging/json_number.h"
#include "composer/logging/log.h"
#include "composer/storage/provenance.h"
#include "composer/storage/weights.h"
#include "composer/text.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// What eval and predict have in common on the command line.
struct UseOptions {
  std::string file, load_path;

  void add_to(CLI::App& app) {
    app.add_option(
        "-f,--file", file,
        "recipe: a path, or a name from `composer list recipes` (default: the one inside "
        "the checkpoint)");
    app.add_option(
        "--load_path", load_path,
        "the weights: a checkpoint folder (runs/NAME/checkpoints/latest), a folder that `composer "
        "export` wrote,\na .safetensors or a .pth file");
    app.allow_extras();
    app.footer(
        "Any key of the recipe can be given as --dotted.key VALUE. Weights of another network, or "
        "of the same\nwith other surgery, are refused; --load_strict false uses them all the "
        "same.");
  }
};

/// The recipe that `path` was trained by.
RecipeFile recipe_inside(const std::string& path) {
  check_load_path(path);
  auto text = read_provenance(weights_file(path)).recipe;
  if (!text.empty()) return {path, std::move(text)};
  if (fs::is_directory(path))
    throw UserError("-f: missing: " + path +
                    " was made from C++ without a recipe; name one that describes its network");
  throw UserError("-f: missing: " + path +
                  " holds weights alone; name the recipe that describes their network");
}

/// A recipe for using weights: they are all that load_path gives, and no run folder is looked at.
Recipe resolve_for_use(const UseOptions& options, const CLI::App& app) {
  Words overrides = overrides_of(app);
  if (!options.load_path.empty())
    overrides.insert(overrides.end(), {"--load_path", options.load_path});
  const auto given = [&](const std::string& key) {
    return std::ranges::any_of(overrides, [&](const auto& word) {
      return word == "--" + key || word.starts_with("--" + key + "=");
    });
  };
  if (given("load_ignore"))
    throw UserError("load_ignore: is for training: what it leaves out would be random");
  const bool strictness_given = given("load_strict");
  if (options.file.empty() && options.load_path.empty())
    throw UserError(
        "load_path: missing: give --load_path a checkpoint folder, .safetensors or .pth file");
  auto recipe =
      resolve(options.file.empty() ? recipe_inside(options.load_path) : find_recipe(options.file),
              overrides, registry(), {.evaluation = true, .options = option_names(app)});
  if (recipe.options.load_path.empty())
    throw UserError(
        "load_path: missing: give --load_path a checkpoint folder, .safetensors or .pth file");
  recipe.options.load_weights_only = true;
  recipe.options.autoresume = false;
  recipe.options.run_name.clear();
  // How training took its first weights is no matter of these.
  recipe.options.load_ignore.clear();
  if (!strictness_given) recipe.options.load_strict = true;
  return recipe;
}

/// The images that --source means; a .beton file stays one.
std::vector<std::string> files_of(const fs::path& source) {
  std::error_code error;
  if (!fs::exists(source, error))
    throw UserError("--source: " + source.string() + " does not exist");
  if (!fs::is_directory(source, error)) return {source.string()};
  auto files = files_below(source);
  const auto others = std::erase_if(files, [](const auto& file) { return !has_image_name(file); });
  if (files.empty()) throw UserError("--source: no image files in " + source.string());
  if (others > 0)
    log::warn("--source: left out " + std::to_string(others) + " files that are no images");
  return files;
}

/// Class names may hold any bytes.
std::string text_of(const ordered_json& line) {
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string class_name(const std::vector<std::string>& names, int64_t index) {
  return index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
}

/// counts: int64 [true class][taken for].
void add_confusion(ordered_json& line, const at::Tensor& counts,
                   const std::vector<std::string>& names) {
  const auto hits = counts.diagonal().to(at::kDouble), samples = counts.sum(1).to(at::kDouble);
  const auto accuracy = (hits / samples).contiguous();
  line["per_class"] = ordered_json::object();
  line["confusion"] = ordered_json::array();
  for (int64_t i = 0; i < counts.size(0); ++i) {
    line["per_class"][class_name(names, i)] = json_number(accuracy.const_data_ptr<double>()[i]);
    const auto row = counts[i].contiguous();
    line["confusion"].push_back(std::vector<int64_t>(row.const_data_ptr<int64_t>(),
                                                     row.const_data_ptr<int64_t>() + row.numel()));
  }
}

std::vector<double> numbers(const at::Tensor& row) {
  const auto values = row.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

/// The weights' outputs mean the classes of their training set.
void check_classes(const std::vector<std::string>& data, const std::vector<std::string>& trained,
                   const Recipe& recipe) {
  if (data.empty() || trained.empty() || data == trained) return;
  throw UserError("val_dataset." + recipe.val_dataset->name() + ": has the classes " +
                  joined(data) + "; " + recipe.options.load_path + " was trained on " +
                  joined(trained) +
                  ": the same label would mean two things; give the data the same class folders");
}

}  // namespace

int eval_command(const Words& words) {
  CLI::App app("Evaluates weights on the recipe's val_dataset: one JSON object on standard output.",
               "eval");
  UseOptions use;
  bool json = false;
  use.add_to(app);
  app.add_flag("--json", json, "also per_class accuracy and confusion (rows: true classes)");
  if (!parse(app, words)) return 0;

  const auto recipe = resolve_for_use(use, app);
  if (place_of_process().rank > 0) log::quiet();
  auto parts = assemble_evaluation(recipe);
  const auto num_classes = parts.model->num_classes();
  auto names = parts.class_names;
  Trainer trainer(std::move(parts));
  trainer.prepare();
  const auto& trained = trainer.loaded().class_names;
  check_classes(names, trained, recipe);
  ConfusionMatrix confusion(num_classes);
  const auto metrics = trainer.evaluate(json ? &confusion : nullptr);
  if (trainer.signal() != 0) return 128 + trainer.signal();
  if (!trainer.state().ranks.first()) return 0;
  ordered_json line;
  for (const auto& [name, value] : metrics) line["metrics/eval/" + name] = json_number(value);
  if (json) {
    if (names.empty()) names = trained;
    add_confusion(line, confusion.counts(), names);
  }
  std::cout << text_of(line) << std::endl;
  return 0;
}

int predict_command(const Words& words) {
  CLI::App app(
      "Classifies images: one JSON object a line with source (or index), classes "
      "and\nprobabilities.",
      "predict");
  UseOptions use;
  std::string source;
  int64_t top_k = 5;
  bool logits_too = false;
  use.add_to(app);
  app.add_option("--source", source, "an image, a folder of images, or a .beton file")->required();
  app.add_option("--top_k", top_k, "classes to show, the likeliest first")
      ->check(CLI::PositiveNumber);
  app.add_flag("--logits", logits_too, "all logits too");
  if (!parse(app, words)) return 0;

  if (const auto ranks = place_of_process().size; ranks > 1)
    throw UserError("predict: works in one process, not in " + std::to_string(ranks) +
                    " ranks; start it without -n");
  const auto files = files_of(source);
  const auto recipe = resolve_for_use(use, app);
  if (!recipe.val_dataset)
    log::info("no val_dataset in the recipe: images are prepared as train_dataset." +
              recipe.train_dataset->name() + " prepares them for evaluation");
  const auto dataset = (recipe.val_dataset ? recipe.val_dataset : recipe.train_dataset)->build();
  check_load_path(recipe.options.load_path);
  auto parts = assemble_model(recipe);
  auto options = loader_options(recipe.options, false);
  options.pin_memory = recipe.options.dataloader.pin_memory && !parts.device->is_cpu();
  options.subset_num_batches.reset();
  if (options.on_bad_sample == OnBadSample::replace) {
    log::warn("dataloader.on_bad_sample: replace: bad images are left out, as with skip");
    options.on_bad_sample = OnBadSample::skip;
  }
  const auto loader = dataset->open_files(files, options);
  Trainer trainer(std::move(parts));
  trainer.prepare();
  auto names = trainer.loaded().class_names;
  if (names.empty()) names = dataset->class_names();
  const bool rows = files.size() == 1 && is_beton(files[0]);
  trainer.predict(*loader, [&](const at::Tensor& logits, const at::Tensor& samples) {
    const auto [values, classes] = at::softmax(logits, 1).topk(std::min(top_k, logits.size(1)), 1);
    for (int64_t i = 0; i < logits.size(0); ++i) {
      const auto sample = samples.const_data_ptr<int64_t>()[i];
      const auto name = rows ? files[0] + ", sample " + std::to_string(sample)
                             : files.at(static_cast<size_t>(sample));
      if (!logits[i].isfinite().all().item<bool>())
        throw RunError(name + ": the network's answer is not finite: the weights of " +
                       recipe.options.load_path + " are not, or they overflow on this image");
      ordered_json line;
      if (rows)
        line["index"] = sample;
      else
        line["source"] = name;
      auto indices = ordered_json::array(), class_names = ordered_json::array();
      for (const double c : numbers(classes[i])) {
        indices.push_back(static_cast<int64_t>(c));
        class_names.push_back(class_name(names, static_cast<int64_t>(c)));
      }
      line["classes"] = std::move(indices);
      if (!names.empty()) line["class_names"] = std::move(class_names);
      line["probabilities"] = numbers(values[i]);
      if (logits_too) line["logits"] = numbers(logits[i]);
      std::cout << text_of(line) << '\n';
    }
  });
  std::cout.flush();
  return 0;
}

}  // namespace composer
