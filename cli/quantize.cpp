// The subcommand quantize: a checkpoint's network with codes of 8 bits for its numbers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/prepared_images.h"
#include "cli/quantization_report.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/network/metrics.h"
#include "composer/normalize.h"
#include "composer/recipe/value.h"
#include "composer/storage/atomic_file.h"
#include "composer/text.h"
#include "inference/fold.h"
#include "inference/from_checkpoint.h"
#include "inference/network_folder.h"
#include "inference/quantization/calibration.h"
#include "inference/quantization/places.h"
#include "inference/runtime.h"

namespace composer {
namespace {

struct QuantizeOptions {
  std::string path, calibration, output, evaluate, weights;
  int64_t samples = 512;
  int64_t activation_bits = 0;  ///< 0: what this processor computes
  std::vector<std::string> keep;
  std::optional<double> max_drop;
  bool bias_correction = false;
};

using Metrics = QuantizationReport::Metrics;

/// What computes a network's logits of normalised images.
using Runner = std::function<at::Tensor(const at::Tensor& images)>;

Runner runner_of(const TrainedNetwork& network) { return Simulation(network); }

at::Tensor normalised(const RawBatch& batch, const TrainedNetwork& network) {
  return normalize(batch.images, network.preparation.normalization, at::MemoryFormat::Contiguous);
}

std::vector<at::Tensor> calibration_images(const QuantizeOptions& options,
                                           const TrainedNetwork& network) {
  const auto data =
      open_prepared("--calibration", options.calibration, true, network, options.samples);
  if (data.samples < options.samples)
    log::warn("--samples: " + options.calibration + " has " + std::to_string(data.samples) +
              " images, fewer than " + std::to_string(options.samples) + ": all are used");
  std::vector<at::Tensor> images;
  data.loader->start(0, 0);
  while (const auto batch = data.loader->next()) images.push_back(normalised(*batch, network));
  return images;
}

/// Metrics of networks on one set of labelled images.
class Judge {
 public:
  Judge(const std::string& path, const TrainedNetwork& network)
      : data_(open_prepared("--evaluate", path, false, network)), path_(path) {
    if (!data_.labelled)
      throw UserError("--evaluate: " + path +
                      " has loose images, whose labels nothing tells: give class folders, a .beton "
                      "file, or the folder of a published set");
  }

  Metrics of(const TrainedNetwork& network) const {
    const auto runner = runner_of(network);
    ClassificationMetrics metrics(network.classes());
    data_.loader->start(0, 0);
    while (const auto batch = data_.loader->next()) {
      const auto most = batch->target.classes.max().item<int64_t>();
      if (most >= network.classes())
        throw UserError("--evaluate: " + path_ + " has the label " + std::to_string(most) +
                        "; the network has " + std::to_string(network.classes()) + " classes");
      metrics.update(runner(normalised(*batch, network)), batch->target);
    }
    return metrics.compute();
  }

 private:
  PreparedImages data_;
  std::string path_;
};

double accuracy_of(const Metrics& metrics) {
  return std::ranges::find(metrics, "Accuracy", &Metrics::value_type::first)->second;
}

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
  if (!std::filesystem::exists(options.calibration))
    throw UserError("--calibration: there is no " + options.calibration);
  if (!options.evaluate.empty() && !std::filesystem::exists(options.evaluate))
    throw UserError("--evaluate: there is no " + options.evaluate);
}

/// Layers that stay in float32, with the reason.
using Kept = std::map<std::string, std::string>;

std::set<std::string> names_of(const Kept& kept) {
  std::set<std::string> names;
  for (const auto& [layer, reason] : kept) names.insert(layer);
  return names;
}

std::string in_decibels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f dB", value);
  return text;
}

void keep_ends(const Calibration& calibration, Kept& kept) {
  for (const auto& [layer, gain] : calibration.ends_worth_keeping(names_of(kept))) {
    kept[layer] = "its codes make more than half of the logits' error (" + in_decibels(gain) + ")";
    log::info(layer + " stays in float32: " + kept[layer]);
  }
}

/// Adds the fewest of the most sensitive layers that bring the accuracy to within max_drop of
/// `before`. Returns what the network then has.
Metrics keep_for_accuracy(const Calibration& calibration, const Judge& judge, double max_drop,
                          const Metrics& before, Kept& kept) {
  const auto already = names_of(kept);
  std::vector<std::string> order;
  std::map<size_t, Metrics> found;
  const auto with = [&](size_t count) {
    auto all = already;
    all.insert(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    return all;
  };
  const auto metrics_with = [&](size_t count) {
    if (!found.contains(count)) found[count] = judge.of(calibration.network(with(count)));
    return found[count];
  };
  const auto enough = [&](size_t count) {
    return accuracy_of(before) - accuracy_of(metrics_with(count)) <=
           max_drop + 1e-9;  // of accuracies that are counts over a count
  };
  if (enough(0)) return metrics_with(0);
  order = calibration.by_sensitivity();
  std::erase_if(order, [&](const auto& layer) { return already.contains(layer); });
  const size_t count = fewest_enough(order.size(), enough);
  for (size_t i = 0; i < count; ++i) kept[order[i]] = "for --max_drop";
  log::info("--max_drop: stay in float32: " +
            joined({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)}));
  return metrics_with(count);
}

void put_metrics(const Metrics& metrics, TrainedNetwork& network) {
  network.metrics.clear();
  for (const auto& [name, value] : metrics) network.metrics["metrics/eval/" + name] = value;
}

/// Says how the time of the coded network compares with that of the plain one on this processor.
void compare_speed(const TrainedNetwork& plain, const TrainedNetwork& coded,
                   const at::Tensor& images) {
  const Runtime runtimes[]{Runtime(plain), Runtime(coded)};
  std::vector<double> ratios;
  for (int round = 0; round < 6; ++round) {
    double seconds[2];
    for (size_t i = 0; i < 2; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      runtimes[i].logits(images);
      seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    if (round > 0) ratios.push_back(seconds[0] / seconds[1]);  // the first one warms up
  }
  std::ranges::sort(ratios);
  const double ratio = ratios[ratios.size() / 2];
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", ratio);
  if (ratio < 1)
    log::warn("on this processor the network in 8 bits is slower than in float32: " +
              std::string(text) + " times as fast");
  else
    log::info("on this processor it is " + std::string(text) + " times as fast as in float32");
}

void quantize(const QuantizeOptions& options) {
  auto network = take_network(options.path, options.weights).network;
  if (!network.quantization.empty())
    throw UserError(options.path + ": has weights of 8 bits already; give the checkpoint");
  network.graph = folded(std::move(network.graph));
  check_keep(options.keep, network.graph);
  std::optional<Judge> judge;
  if (!options.evaluate.empty()) judge.emplace(options.evaluate, network);
  auto images = calibration_images(options, network);
  make_network_folder(options.output);
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
  keep_ends(calibration, kept);
  if (judge) report.before = judge->of(calibration.folded());
  if (options.max_drop)
    report.after = keep_for_accuracy(calibration, *judge, *options.max_drop, report.before, kept);
  auto coded = calibration.network(names_of(kept));
  if (judge && report.after.empty()) report.after = judge->of(coded);
  if (coded.quantization.empty())
    log::warn("no layer computes with codes: the network is as slow and as exact as before");
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
      ->check(CLI::PositiveNumber);
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
  if (!parse(app, words)) return 0;
  check(options);
  quantize(options);
  return 0;
}

}  // namespace composer
