// The subcommands eval and predict.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "composer/assemble.h"
#include "cli/commands.h"
#include "cli/sources.h"
#include "composer/error.h"
#include "composer/interrupt.h"
#include "composer/logging/log.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A recipe for using weights: they are all that load_path gives, and no run folder is looked at.
Recipe resolve_for_use(const std::string& file, const Words& overrides) {
  auto recipe = resolve(find_recipe(file), overrides);
  if (recipe.options.load_path.empty())
    throw UserError(
        "load_path: missing: give --load_path a checkpoint folder, .safetensors or .pth file");
  recipe.options.load_weights_only = true;
  recipe.options.autoresume = false;
  recipe.options.run_name.clear();
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

std::vector<double> numbers(const at::Tensor& row) {
  const auto values = row.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

int eval_command(const Words& words) {
  CLI::App app("Evaluates weights on the recipe's val_dataset: one JSON object on standard output.",
               "eval");
  std::string file = "quickstart";
  app.add_option(
      "-f,--file", file,
      "recipe: a path, or a name from `composer list recipes` (default: the quickstart)");
  app.allow_extras();
  if (!parse(app, words)) return 0;

  Trainer trainer(assemble_evaluation(resolve_for_use(file, app.remaining())));
  const auto metrics = trainer.evaluate();
  if (received_signal() != 0) return 128 + received_signal();
  ordered_json line;
  for (const auto& [name, value] : metrics) line["metrics/eval/" + name] = value;
  std::cout << line.dump() << std::endl;
  return 0;
}

int predict_command(const Words& words) {
  CLI::App app(
      "Classifies images: one JSON object a line with source (or index), classes "
      "and\nprobabilities.",
      "predict");
  std::string file = "quickstart", source;
  int64_t top_k = 5;
  bool logits_too = false;
  app.add_option(
      "-f,--file", file,
      "recipe: a path, or a name from `composer list recipes` (default: the quickstart)");
  app.add_option("--source", source, "an image, a folder of images, or a .beton file")->required();
  app.add_option("--top_k", top_k, "classes to show, the likeliest first")
      ->check(CLI::PositiveNumber);
  app.add_flag("--logits", logits_too, "all logits too");
  app.allow_extras();
  if (!parse(app, words)) return 0;

  const auto recipe = resolve_for_use(file, app.remaining());
  if (!recipe.val_dataset) throw UserError("val_dataset: missing: it says how images are prepared");
  check_load_path(recipe.options.load_path);
  const auto files = files_of(source);
  auto options = loader_options(recipe, false);
  options.subset_num_batches.reset();
  if (options.on_bad_sample == OnBadSample::replace) {
    log::warn("dataloader.on_bad_sample: replace: bad images are left out, as with skip");
    options.on_bad_sample = OnBadSample::skip;
  }
  const auto loader = recipe.val_dataset->build()->open_files(files, options);
  Trainer trainer(assemble_model(recipe));
  const bool rows = files.size() == 1 && is_beton(files[0]);
  trainer.predict(*loader, [&](const at::Tensor& logits, const at::Tensor& samples) {
    const auto [values, classes] = at::softmax(logits, 1).topk(std::min(top_k, logits.size(1)), 1);
    for (int64_t i = 0; i < logits.size(0); ++i) {
      const auto sample = samples.const_data_ptr<int64_t>()[i];
      ordered_json line;
      if (rows)
        line["index"] = sample;
      else
        line["source"] = files.at(static_cast<size_t>(sample));
      line["classes"] = ordered_json::array();
      for (const double c : numbers(classes[i])) line["classes"].push_back(static_cast<int64_t>(c));
      line["probabilities"] = numbers(values[i]);
      if (logits_too) line["logits"] = numbers(logits[i]);
      std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    }
  });
  std::cout.flush();
  return 0;
}

}  // namespace composer
