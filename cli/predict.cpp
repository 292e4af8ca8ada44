// The subcommand predict: with a checkpoint and the trainer, or with an export and the runtime.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/params/value.h"
#include "base/remote/fetched.h"
#include "base/remote/remote_path.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/declarations.h"
#include "cli/predict_images.h"
#include "cli/use_options.h"
#include "composer/run/assemble.h"
#include "composer/run/starting_point.h"
#include "data/beton/source.h"
#include "data/datasets/dataset_params.h"
#include "data/files/thread_count.h"
#include "data/samples/class_folders.h"
#include "inference/network_folder.h"
#include "inference/runtime.h"
#include "nn/distributed/ranks.h"
#include "nn/network/objective.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

std::vector<double> numbers(const at::Tensor& row) {
  const auto values = row.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

/// Prints one line with a JSON object for each image.
class PredictionLines {
 public:
  struct Options {
    int64_t top_k = 5;
    bool logits = false;
    const Objective* objective = &classification();
  };

  /// files: the images, or one .beton file. weights: the path of the network. UserError for labels
  /// that are neither class names nor class indices.
  PredictionLines(std::vector<std::string> files, std::vector<std::string> class_names,
                  std::string weights, Options options, ImageLabels labels)
      : files_(std::move(files)),
        class_names_(std::move(class_names)),
        weights_(std::move(weights)),
        options_(options),
        labels_(std::move(labels)),
        rows_(files_.size() == 1 && is_beton(files_[0])) {
    if (!options_.objective->takes_values()) find_classes();
  }

  /// Prints the lines of a batch: the likeliest classes, or the value of each output. logits: [N,
  /// classes]; samples: int64 [N], indices of the files, or of samples in the .beton file. RunError
  /// for logits that are not finite.
  void print(const at::Tensor& logits, const at::Tensor& samples) {
    for (int64_t i = 0; i < logits.size(0); ++i) {
      const auto sample = samples.const_data_ptr<int64_t>()[i];
      const auto file = shown_path(files_.at(rows_ ? 0 : static_cast<size_t>(sample)));
      const auto name = rows_ ? file + ", sample " + std::to_string(sample) : file;
      if (!logits[i].isfinite().all().item<bool>())
        throw RunError(name + ": the network's answer is not finite: the weights of " + weights_ +
                       " are not, or they overflow on this image");
      ordered_json line;
      if (rows_)
        line["index"] = sample;
      else
        line["source"] = name;
      if (options_.objective->takes_values())
        add_values(line, logits[i]);
      else
        add_classes(line, logits[i]);
      if (const auto place = static_cast<size_t>(sample);
          place < classes_.size() && classes_[place] >= 0) {
        const bool right = logits[i].argmax().item<int64_t>() == classes_[place];
        line["label"] = labels_.texts[place];
        line["correct"] = right;
        ++labelled_, right_ += right ? 1 : 0;
      }
      if (options_.logits) line["logits"] = numbers(logits[i]);
      std::cout << json_line(line) << '\n';
    }
  }
  /// Call this at the end. Logs the accuracy over the images with a label.
  void finish() const {
    std::cout.flush();
    if (labelled_ > 0)
      log::info("accuracy: " +
                number_text(static_cast<double>(right_) / static_cast<double>(labelled_), 4) +
                ", " + std::to_string(right_) + " of " + quantity(labelled_, "image"));
  }

 private:
  /// Labels count as names if any of them is a class name, otherwise as indices.
  void find_classes() {
    const auto places = indices_of(labels_.texts, class_names_);
    const bool names = std::ranges::any_of(places, [](int32_t place) { return place >= 0; });
    const auto most =
        class_names_.empty() ? std::numeric_limits<int64_t>::max() : std::ssize(class_names_);
    for (size_t i = 0; i < labels_.texts.size(); ++i) {
      const auto& text = labels_.texts[i];
      int64_t label = -1;
      if (names) {
        label = places[i];
      } else {
        label = to_number<int64_t>(text).value_or(-1);
        if (label >= most) label = -1;
      }
      if (label < 0 && !text.empty())
        throw UserError(
            labels_.list + ":" + std::to_string(labels_.lines.at(i)) + ": '" + text +
            "' is none of the classes of " + weights_ +
            (class_names_.empty() ? ", which are numbers" : ": " + first_few(class_names_)) +
            did_you_mean(text, class_names_));
      classes_.push_back(label);
    }
  }

  /// logits: [classes].
  void add_classes(ordered_json& line, const at::Tensor& logits) const {
    const int64_t shown = std::min(options_.top_k, logits.size(0));
    const auto [values, classes] = at::softmax(logits, 0).topk(shown, 0);
    auto indices = ordered_json::array(), names = ordered_json::array();
    for (const double c : numbers(classes)) {
      indices.push_back(static_cast<int64_t>(c));
      names.push_back(class_name(class_names_, static_cast<int64_t>(c)));
    }
    line["classes"] = std::move(indices);
    if (!class_names_.empty()) line["class_names"] = std::move(names);
    line["probabilities"] = numbers(values);
  }

  /// outputs: [K].
  void add_values(ordered_json& line, const at::Tensor& outputs) const {
    line["values"] = numbers(options_.objective->answers(outputs));
    if (!class_names_.empty()) line["value_names"] = class_names_;
  }

  std::vector<std::string> files_, class_names_;
  std::string weights_;
  Options options_;
  ImageLabels labels_;
  std::vector<int64_t> classes_;  ///< class of each file, -1 without a label
  int64_t labelled_ = 0, right_ = 0;
  bool rows_;  ///< true if the images are samples of one .beton file
};

/// The options of both kinds of predict.
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

/// Treats replace as skip, with a warning.
OnBadSample without_replacement(OnBadSample on_bad_sample) {
  if (on_bad_sample != OnBadSample::replace) return on_bad_sample;
  log::warn("dataloader.on_bad_sample: replace: bad images are left out, as with skip");
  return OnBadSample::skip;
}

constexpr const char* about =
    "Classifies images: one JSON object a line with source (or index), classes and\nprobabilities; "
    "of a list with labels also label and correct, and the accuracy in the log.";

/// Predicts with a checkpoint or a file of weights, by the trainer.
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
  check_alone("predict", context.environment);
  if (use.file.empty() && use.load_path.empty())
    throw UserError(
        "predict: which network? give --load_path a checkpoint folder, .safetensors or .pth file, "
        "or --model a folder that `composer export` or `composer quantize` wrote");
  auto [files, labels] = predict_images(predict.source);
  const auto recipe = resolve_for_use(use, app);
  for (const auto& key : recipe.automatic)
    if (key.ends_with(".num_classes") || key.ends_with(".crop_size"))
      throw UserError(key +
                      ": is auto, which only training data decide; give a number or, if "
                      "--load_path is a checkpoint, leave out -f: it has the recipe of its run");
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

/// Predicts with an export, by the runtime.
int predict_by_model(const Words& words) {
  CLI::App app(about, "predict");
  PredictOptions predict;
  std::string model, precision = "fp32", on_bad_sample = "error";
  LoaderOptions options{.batch_size = 32, .num_workers = thread_count(0)};
  app.add_option("--model", model, "a folder that `composer export` or `composer quantize` wrote")
      ->required();
  predict.add_to(app);
  app.add_option("--precision", precision, "type of numbers that are no codes: fp32 or bf16")
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

  check_alone("predict", read_rank_environment());
  auto [files, labels] = predict_images(predict.source);
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

/// UserError when --model, here a key of the recipe, names an export.
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
