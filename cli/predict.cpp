// The subcommand predict: by a checkpoint and the trainer, or by an export and the runtime.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/fetched.h"
#include "base/remote/remote_path.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/declarations.h"
#include "cli/prediction_lines.h"
#include "cli/sources.h"
#include "cli/use_options.h"
#include "composer/run/assemble.h"
#include "composer/run/starting_point.h"
#include "data/beton/source.h"
#include "data/datasets/dataset_params.h"
#include "data/datasets/image_folder.h"
#include "data/files/thread_count.h"
#include "data/samples/list_file.h"
#include "inference/network_folder.h"
#include "inference/runtime.h"
#include "nn/distributed/rendezvous.h"

namespace composer {
namespace {

/// The images that --source means; a .beton file stays one.
std::vector<std::string> files_of(const std::filesystem::path& source) {
  std::error_code error;
  const bool remote = is_remote(source.string());
  if (remote && (is_beton(source) || has_image_name(RemotePath(source.string()).name())))
    return {source.string()};
  if (!remote && !std::filesystem::exists(source, error))
    throw UserError("--source: " + source.string() + " does not exist" +
                    slash_hint(source.string()));
  if (!remote && !std::filesystem::is_directory(source, error)) return {source.string()};
  auto files = [&] {
    try {
      return remote ? remote_files_below(source.string()) : files_below(source);
    } catch (const UserError& error) {
      throw UserError("--source: " + std::string(error.what()));
    }
  }();
  std::set<std::string> endings;  // of the others
  const auto others = std::erase_if(files, [&](const std::string& file) {
    const auto name = file_name_of(file);
    if (has_image_name(name)) return false;
    endings.insert(name.has_extension() ? name.extension().string() : "no ending");
    return true;
  });
  if (files.empty()) throw UserError("--source: no image files in " + shown_path(source.string()));
  if (others > 0)
    log::warn("--source: left out what is no image that can be read by its name: " +
              std::to_string(others) + (others == 1 ? " file (" : " files (") +
              first_few({endings.begin(), endings.end()}) + ")");
  return files;
}

struct Images {
  std::vector<std::string> files;
  PredictionLines::Labels labels{};
};

/// Those of a list have labels, if it has.
Images images_of(const std::string& source) {
  if (!is_list_file(source)) return {files_of(source)};
  if (is_remote(source))
    throw UserError("--source: '" + shown_path(source) + "' is remote; lists are read from a disk");
  Images images{{}, {.list = source}};
  for (auto& file : listed_images(source)) {
    images.files.push_back(std::move(file.path));
    images.labels.texts.push_back(std::move(file.label));
    images.labels.lines.push_back(file.line);
  }
  return images;
}

/// What both ways have on the command line.
struct PredictOptions {
  std::string source;
  PredictionLines::Options lines;

  void add_to(CLI::App& app) {
    app.add_option("--source", source,
                   "an image, a folder of images, or a .beton file, local or remote; or a list of "
                   "images (.csv, .tsv, .jsonl), with labels or without")
        ->required();
    app.add_option("--top_k", lines.top_k, "classes to show, the likeliest first")
        ->check(positive());
    app.add_flag("--logits", lines.logits, "all logits too");
  }
};

/// Bad images have no others in their place.
OnBadSample without_replacement(OnBadSample on_bad_sample) {
  if (on_bad_sample != OnBadSample::replace) return on_bad_sample;
  log::warn("dataloader.on_bad_sample: replace: bad images are left out, as with skip");
  return OnBadSample::skip;
}

void check_alone(const RankEnvironment& environment) {
  if (const auto ranks = environment.size; ranks > 1)
    throw UserError("predict: works in one process, not in " + std::to_string(ranks) +
                    " ranks; start it without -n");
}

constexpr const char* about =
    "Classifies images: one JSON object a line with source (or index), classes and\nprobabilities; "
    "of a list with labels also label and correct, and the accuracy in the log.";

/// Of a checkpoint, or a file of weights, by the trainer.
int predict_by_recipe(const Words& words) {
  CLI::App app(about, "predict");
  UseOptions use;
  PredictOptions predict;
  use.add_to(app);
  predict.add_to(app);
  app.footer(app.get_footer() +
             "\n\nOr --model PATH in place of --load_path: a folder that `composer export` or "
             "`composer quantize` wrote;\n`composer predict --model PATH --help` says more.");
  if (!parse(app, words)) return 0;

  const auto context = read_run_context();
  check_alone(context.environment);
  if (use.file.empty() && use.load_path.empty())
    throw UserError(
        "predict: which network? give --load_path a checkpoint folder, .safetensors or .pth file, "
        "or --model a folder that `composer export` or `composer quantize` wrote");
  auto [files, labels] = images_of(predict.source);
  const auto recipe = resolve_for_use(use, app);
  for (const auto& key : recipe.automatic)
    if (key.ends_with(".num_classes") || key.ends_with(".crop_size"))
      throw UserError(key +
                      ": is auto, which the data of a training decide; give a number, or leave out "
                      "-f where --load_path is a checkpoint: it has the recipe of its run");
  if (!recipe.val_dataset)
    log::info("no val_dataset in the recipe: images are prepared as train_dataset." +
              recipe.train_dataset->name() + " prepares them for evaluation");
  const auto dataset =
      build_dataset(recipe, recipe.val_dataset ? *recipe.val_dataset : *recipe.train_dataset);
  check_load_path(recipe.options.load_path, recipe.options.remote);
  auto parts = assemble_model(recipe, context);
  auto options = loader_options(recipe.options, context, false);
  options.pin_memory = recipe.options.dataloader.pin_memory && !parts.device->is_cpu();
  options.subset_num_batches.reset();
  options.on_bad_sample = without_replacement(options.on_bad_sample);
  const auto loader = dataset->open_files(files, options);
  Trainer trainer(std::move(parts));
  trainer.prepare();
  auto names = trainer.loaded().class_names;
  if (names.empty()) names = dataset->class_names();
  predict.lines.objective = &trainer.state().model->objective();
  PredictionLines lines(std::move(files), names, recipe.options.load_path, predict.lines,
                        std::move(labels));
  trainer.predict(*loader, [&](const at::Tensor& logits, const at::Tensor& samples) {
    lines.print(logits, samples);
  });
  lines.finish();
  return 0;
}

/// Of an export, by the runtime.
int predict_by_model(const Words& words) {
  CLI::App app(about, "predict");
  PredictOptions predict;
  std::string model, precision = "fp32", on_bad_sample = "error";
  LoaderOptions options{.batch_size = 32, .num_workers = thread_count(0)};
  app.add_option("--model", model, "a folder that `composer export` or `composer quantize` wrote")
      ->required();
  predict.add_to(app);
  app.add_option("--precision", precision, "of numbers that are no codes: fp32 or bf16")
      ->check(CLI::IsMember(run_precision_words));
  app.add_option("--batch_size", options.batch_size, "images that are classified together")
      ->check(positive());
  app.add_option("--num_workers", options.num_workers,
                 "threads that read and decode; default: one for each processor")
      ->check(not_negative());
  app.add_option("--on_bad_sample", on_bad_sample,
                 "error: an image that cannot be read ends the run; skip: it is named and left "
                 "out")
      ->check(word_of({"error", "skip"}));
  if (!parse(app, words)) return 0;

  check_alone(read_rank_environment());
  auto [files, labels] = images_of(predict.source);
  const auto network = read_network(fetched(model));
  options.on_bad_sample = on_bad_sample_words.at(on_bad_sample);
  options.resize_filter = network.resize_filter;
  const auto loader = open_file_loader(files, network.preparation, options);
  const Runtime runtime(network, run_precision_words.at(precision));
  const auto objective = make_objective(network.loss, {}, network.classes());
  if (objective) predict.lines.objective = objective.get();
  PredictionLines lines(std::move(files), network.class_names, model, predict.lines,
                        std::move(labels));
  loader->start(0, 0);
  while (const auto batch = loader->next()) {
    if (batch->samples() == 0) continue;
    lines.print(runtime.logits(batch->images), batch->target.classes);
    std::cout.flush();
  }
  lines.finish();
  return 0;
}

bool names_option(const Words& words, const std::string& option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

/// An export beside a recipe, whose key --model is.
void check_one_network(const Words& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (std::error_code error;
        words[i] == "--model" &&
        std::filesystem::exists(std::filesystem::path(words[i + 1]) / "network.json", error))
      throw UserError("--model: " + words[i + 1] +
                      " cannot stand beside --load_path or -f, where --model is the recipe's; give "
                      "one of them");
}

}  // namespace

int predict_command(const Words& words) {
  if (declares()) {
    predict_by_recipe(words);
    return predict_by_model(words);
  }
  const bool by_recipe = names_option(words, "--load_path") || names_option(words, "-f") ||
                         names_option(words, "--file");
  if (by_recipe) check_one_network(words);
  return !by_recipe && names_option(words, "--model") ? predict_by_model(words)
                                                      : predict_by_recipe(words);
}

}  // namespace composer
