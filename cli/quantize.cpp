// The subcommand quantize: quantizes the network of a checkpoint to 8 bits.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/params/value.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "cli/output_file.h"
#include "cli/prepared_images.h"
#include "cli/quantization_report.h"
#include "composer/checkpoint/checkpoint.h"
#include "inference/fold.h"
#include "inference/from_checkpoint.h"
#include "inference/network_folder.h"
#include "inference/quantization/calibration.h"
#include "inference/quantization/points.h"
#include "inference/runtime.h"
#include "nn/network/metrics.h"
#include "nn/network/normalize.h"
#include "nn/network/objective.h"

namespace composer {
namespace {

struct QuantizeOptions {
  std::string path, calibration, output, evaluate, weights;
  int64_t samples = 512;
  int64_t activation_bits = 0;  ///< 0: the number of bits that this processor supports
  std::vector<std::string> keep;
  std::optional<double> max_drop;
  bool bias_correction = false;
  std::string on_bad_sample = "error";

  ImageRequest calibration_request() const {
    return {.option = "--calibration",
            .path = calibration,
            .is_train = true,
            .on_bad_sample = on_bad_sample_words.at(on_bad_sample),
            .most = samples};
  }
  ImageRequest evaluation_request() const {
    return {.option = "--evaluate",
            .path = evaluate,
            .on_bad_sample = on_bad_sample_words.at(on_bad_sample)};
  }
};

using Metrics = QuantizationReport::Metrics;

double accuracy_of(const Metrics& metrics) {
  return std::ranges::find(metrics, "Accuracy", &Metrics::value_type::first)->second;
}

/// Computes the logits of a batch.
using Runner = std::function<at::Tensor(const RawBatch&)>;

at::Tensor normalised(const RawBatch& batch, const TrainedNetwork& network) {
  return normalize(batch.images, network.preparation.normalization, at::MemoryFormat::Contiguous);
}

/// The runtime, or a simulation for activations whose products overflow on this processor.
Runner runner_of(const TrainedNetwork& network) {
  if (!network.quantization.empty() &&
      network.quantization.activation_bits > activation_bits_here())
    return [simulation = Simulation(network), &network](const RawBatch& batch) {
      return simulation(normalised(batch, network));
    };
  return [runtime = std::make_shared<Runtime>(network)](const RawBatch& batch) {
    return runtime->logits(batch.images);
  };
}

std::vector<at::Tensor> calibration_images(const QuantizeOptions& options,
                                           const TrainedNetwork& network) {
  const auto data = open_prepared(options.calibration_request(), network);
  if (data.samples < options.samples)
    log::warn("--samples: " + options.calibration + " has " + std::to_string(data.samples) +
              " images, fewer than " + std::to_string(options.samples) + ": all are used");
  std::vector<at::Tensor> images;
  data.loader->start(0, 0);
  while (const auto batch = data.loader->next())
    if (batch->samples() > 0) images.push_back(normalised(*batch, network));
  return images;
}

/// Evaluates networks on one set of labelled images.
class Judge {
 public:
  Judge(ImageRequest request, const TrainedNetwork& network)
      : request_(std::move(request)), data_(open_prepared(request_, network)) {
    const auto objective = make_objective(network.loss, {}, network.classes());
    if (objective && objective->takes_values())
      throw UserError(request_.option +
                      ": is for networks that tell classes apart; this one was "
                      "trained with loss: " +
                      network.loss + "; leave it out");
    if (!data_.labelled)
      throw problem(
          "has images without labels: give class folders, a .beton file with a field of integers, "
          "or the folder of a published set");
  }

  Metrics of(const TrainedNetwork& network) {
    const auto runner = runner_of(network);
    ClassificationMetrics metrics(network.classes());
    data_.loader->start(0, 0);
    while (const auto batch = data_.loader->next()) {
      if (batch->samples() == 0) continue;
      const auto most = batch->target.classes.max().item<int64_t>();
      if (most >= network.classes())
        throw problem("has the label " + std::to_string(most) + "; the network has " +
                      std::to_string(network.classes()) + " classes");
      metrics.update(runner(*batch), batch->target);
    }
    return metrics.compute();
  }

  /// Warns when the accuracy is worse than chance over enough samples and the data do not name
  /// their classes. metrics: those of the float32 network.
  void warn_of_other_classes(const Metrics& metrics, const TrainedNetwork& network) const {
    constexpr int64_t kLeastSamples = 100;
    const double accuracy = accuracy_of(metrics);
    const auto classes = static_cast<double>(network.classes());
    if (!data_.unnamed_classes || classes < 2 || data_.samples < kLeastSamples) return;
    if (!(accuracy * classes < 1)) return;
    log::warn(request_.option + ": " + request_.path + ": the accuracy in float32 is " +
              number_text(accuracy, 4) +
              ", worse than chance; do its labels number the classes of the network" +
              (network.class_names.empty() ? "" : ", " + first_few(network.class_names)) +
              "? The data do not name their own");
  }

 private:
  UserError problem(const std::string& text) const {
    return UserError(request_.option + ": " + request_.path + " " + text);
  }

  ImageRequest request_;
  PreparedImages data_;
};

void check_keep(const std::vector<std::string>& keep, const Graph& graph) {
  const auto layers = codable_layers(graph);
  std::vector<std::string> problems;
  for (const auto& layer : keep)
    if (std::ranges::find(layers, layer) == layers.end())
      problems.push_back("--keep: no convolution or linear layer is called '" + layer + "'" +
                         suggestion(layer, layers));
  if (!problems.empty()) throw UserError(problems);
}

void check(const QuantizeOptions& options) {
  if (options.max_drop && options.evaluate.empty())
    throw UserError("--max_drop: needs --evaluate: it is about the accuracy there");
  for (const auto& [option, path] :
       {std::pair{"--calibration", options.calibration}, {"--evaluate", options.evaluate}})
    if (!path.empty() && !is_remote(path) && !std::filesystem::exists(path))
      throw UserError(std::string(option) + ": there is no " + path);
}

/// The layers that stay in float32, each with the reason.
using Kept = std::map<std::string, std::string>;

std::set<std::string> names_of(const Kept& kept) {
  std::set<std::string> names;
  for (const auto& [layer, reason] : kept) names.insert(layer);
  return names;
}

void keep_ends(const Calibration& calibration, Kept& kept) {
  for (const auto& [layer, gain] : calibration.ends_worth_keeping(names_of(kept))) {
    kept[layer] =
        "its codes make more than half of the logits' error (" + number_text(gain, 1) + " dB)";
    log::info(layer + " stays in float32: " + kept[layer]);
  }
}

/// Adds to `kept` as few layers as possible, so that the accuracy is within max_drop of `before`.
/// Returns the metrics of that network. RunError if all layers in float32 are not enough.
Metrics keep_for_accuracy(const Calibration& calibration, Judge& judge, double max_drop,
                          const Metrics& before, Kept& kept) {
  const auto by_hand = names_of(kept);
  Metrics last_enough;
  const auto enough = [&](std::set<std::string> layers) {
    layers.insert(by_hand.begin(), by_hand.end());
    auto metrics = judge.of(calibration.network(layers));
    const double drop = accuracy_of(before) - accuracy_of(metrics);
    const bool good = drop <= max_drop + 1e-9;  // tolerance for the rounding of accuracies
    log::info("--max_drop: with " + std::to_string(layers.size()) +
              (layers.size() == 1 ? " layer" : " layers") + " in float32 the accuracy is " +
              number_text(accuracy_of(metrics), 4) + ", " + number_text(drop, 4) + " less" +
              (good ? "" : ": too much"));
    if (good) last_enough = std::move(metrics);
    return good;
  };
  const auto worst_first = [&] {
    auto order = calibration.by_sensitivity();
    std::erase_if(order, [&](const auto& layer) { return by_hand.contains(layer); });
    return order;
  };
  const auto found = fewest_kept(worst_first, enough);
  if (!found)
    throw RunError("--max_drop: even with all layers in float32 the accuracy falls from " +
                   number_text(accuracy_of(before), 4) + " by more than " +
                   number_text(max_drop, 4));
  for (const auto& layer : *found) kept[layer] = "for --max_drop";
  log::info("--max_drop: " + (found->empty() ? "no more layers have to stay in float32"
                                             : "stay in float32: " + joined(*found)));
  return last_enough;
}

void put_metrics(const Metrics& metrics, TrainedNetwork& network) {
  network.metrics.clear();
  for (const auto& [name, value] : metrics) network.metrics["metrics/eval/" + name] = value;
}

/// Logs the speed of the quantized network relative to the float32 network on this processor.
void compare_speed(const TrainedNetwork& plain, const TrainedNetwork& coded,
                   const at::Tensor& images) {
  const Runtime floats(plain), codes(coded);
  const auto seconds = [&](const Runtime& runtime) {
    const double begin = steady_seconds();
    runtime.logits(images);
    return steady_seconds() - begin;
  };
  seconds(floats), seconds(codes);  // warm-up
  std::vector<double> ratios;
  for (int round = 0; round < 5; ++round) {
    const double before = seconds(floats);
    ratios.push_back(before / seconds(codes));
  }
  const double ratio = median(std::move(ratios));
  const auto text = number_text(ratio, 1);
  if (ratio < 1)
    log::warn("on this processor the network in 8 bits is slower than in float32: " + text +
              " times as fast");
  else
    log::info("on this processor it is " + text + " times as fast as in float32");
}

void quantize(const QuantizeOptions& options) {
  check_on_this_machine("--output", options.output);
  check_network_folder(options.output);
  auto network = take_network(options.path, options.weights).network;
  if (!network.quantization.empty())
    throw UserError(options.path + ": has weights of 8 bits already; give the checkpoint");
  network.graph = folded(std::move(network.graph));
  check_keep(options.keep, network.graph);
  std::optional<Judge> judge;
  if (!options.evaluate.empty()) judge.emplace(options.evaluation_request(), network);
  auto images = calibration_images(options, network);
  QuantizationReport report{.calibration = options.calibration,
                            .samples = 0,
                            .activation_bits = options.activation_bits,
                            .bias_correction = options.bias_correction,
                            .layers = {},
                            .evaluation = options.evaluate};
  for (const auto& batch : images) report.samples += batch.size(0);
  if (report.activation_bits == 0) report.activation_bits = activation_bits_here();
  const auto sample =
      images.front().narrow(0, 0, std::min<int64_t>(8, images.front().size(0))).clone();
  const Calibration calibration(std::move(network), std::move(images), report.activation_bits,
                                options.bias_correction);
  Kept kept;
  for (const auto& layer : options.keep) kept[layer] = "for --keep";
  if (!options.max_drop) keep_ends(calibration, kept);
  if (judge) {
    report.before = judge->of(calibration.folded());
    judge->warn_of_other_classes(report.before, calibration.folded());
  }
  if (options.max_drop)
    report.after = keep_for_accuracy(calibration, *judge, *options.max_drop, report.before, kept);
  auto coded = calibration.network(names_of(kept));
  if (judge && report.after.empty()) report.after = judge->of(coded);
  if (coded.quantization.empty())
    log::warn("no layer computes with codes: the network stays as slow and as exact as it was");
  put_metrics(report.after, coded);
  const auto errors = calibration.errors(coded);
  report.layers = layers_of(coded, errors, kept);
  report.logits_error = errors.at(coded.graph.output);
  write_network(options.output, coded);
  write_whole(std::filesystem::path(options.output) / "quantization.json",
              to_json(report).dump(2) + "\n");
  for (const auto& line : table_of(report)) std::cerr << line << '\n';
  log::info("wrote the network of " + options.path + " (weights: " + coded.weights +
            ", activations of " + std::to_string(report.activation_bits) + " bits) to " +
            options.output);
  if (!coded.quantization.empty()) compare_speed(calibration.folded(), coded, sample);
}

}  // namespace

int quantize_command(const Words& words) {
  CLI::App app(
      "Writes the network of a checkpoint with weights and activations of 8 bits, their ranges "
      "chosen\nby what it computes of some images, and reports what that costs.",
      "quantize");
  QuantizeOptions options;
  app.add_option("path", options.path, "a checkpoint folder")->required();
  app.add_option("--calibration", options.calibration,
                 "images like those of training: a folder, a .beton file, or a folder with "
                 "CIFAR-10's or MNIST's files")
      ->required();
  app.add_option("--output", options.output, "the folder to write")->required();
  app.add_option("--samples", options.samples, "images of the calibration, spread over the data")
      ->check(positive());
  app.add_option("--evaluate", options.evaluate,
                 "labelled images: accuracy and cross-entropy before and after");
  app.add_option("--keep", options.keep, "layers that stay in float32, as the report names them");
  app.add_option("--max_drop", options.max_drop,
                 "keep the fewest layers in float32 with which the accuracy of --evaluate falls by "
                 "no more than this\nshare, 0.002 for instance")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--bias_correction", options.bias_correction,
               "biases make good what the codes change on average");
  app.add_option("--weights", options.weights,
                 "model, or the algorithm whose average of the weights is wanted (" +
                     joined(averaging_algorithms(), ", ") +
                     "); default: what evaluation uses, the average where there is one");
  app.add_option("--activation_bits", options.activation_bits,
                 "8, or 7 for processors without VNNI and AMX; default: what is right for this one")
      ->check(CLI::IsMember({7, 8}));
  app.add_option("--on_bad_sample", options.on_bad_sample,
                 "error: an image that cannot be read ends the run; skip: it is named and left out")
      ->check(word_of({"error", "skip"}));
  if (!parse(app, words)) return 0;
  check(options);
  quantize(options);
  return 0;
}

}  // namespace composer
