// The subcommands eval and predict.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/assemble.h"
#include "cli/commands.h"
#include "composer/error.h"
#include "composer/interrupt.h"
#include "composer/logging/log.h"

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

bool looks_like_image(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::string> files_of(const fs::path& source) {
  if (!fs::exists(source)) throw UserError("--source: " + source.string() + " does not exist");
  if (source.extension() == ".beton")
    throw UserError(
        "--source: .beton files come with a later version; give an image or a folder of images");
  if (!fs::is_directory(source)) return {source.string()};
  std::vector<std::string> files;
  size_t others = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(source, fs::directory_options::follow_directory_symlink)) {
    if (!entry.is_regular_file()) continue;
    if (looks_like_image(entry.path()))
      files.push_back(entry.path().string());
    else
      ++others;
  }
  if (files.empty())
    throw UserError("--source: no .jpg, .jpeg or .png files in " + source.string());
  if (others > 0)
    log::warn("--source: left out " + std::to_string(others) +
              " files that are no .jpg, .jpeg or .png");
  std::sort(files.begin(), files.end());
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
  CLI::App app("Classifies images: one JSON object a line with source, classes and probabilities.",
               "predict");
  std::string file = "quickstart", source;
  int64_t top_k = 5;
  bool logits_too = false;
  app.add_option(
      "-f,--file", file,
      "recipe: a path, or a name from `composer list recipes` (default: the quickstart)");
  app.add_option("--source", source, "an image, or a folder of images")->required();
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
  const auto loader = recipe.val_dataset->build()->open_files(files, options);
  Trainer trainer(assemble_model(recipe));
  size_t index = 0;
  trainer.predict(*loader, [&](const at::Tensor& logits) {
    const auto [values, classes] = at::softmax(logits, 1).topk(std::min(top_k, logits.size(1)), 1);
    for (int64_t i = 0; i < logits.size(0); ++i) {
      ordered_json line{{"source", files.at(index++)}, {"classes", ordered_json::array()}};
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
