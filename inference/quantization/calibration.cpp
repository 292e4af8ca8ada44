#include "inference/quantization/calibration.h"

#include <algorithm>
#include <utility>

#include "inference/quantization/bias_correction.h"
#include "inference/quantization/points.h"

namespace composer {
namespace {

constexpr int64_t kFirstImages = 64;
constexpr int64_t kAtOnce = 8;  // of these, whose numbers are held

/// 10 log10(2): as much noise again.
constexpr double kTwice = 3.01;

std::vector<at::Tensor> first_images_of(const std::vector<at::Tensor>& batches, int64_t count) {
  std::vector<at::Tensor> first;
  for (const auto& batch : batches) {
    if (count <= 0) break;
    const auto part = batch.narrow(0, 0, std::min(count, batch.size(0)));
    for (const auto& images : part.split(kAtOnce)) first.push_back(images);
    count -= batch.size(0);
  }
  return first;
}

}  // namespace

Calibration::Calibration(TrainedNetwork folded, std::vector<at::Tensor> images,
                         int64_t activation_bits, bool correct_biases)
    : folded_(std::move(folded)),
      first_images_(first_images_of(images, kFirstImages)),
      activation_bits_(activation_bits),
      correct_biases_(correct_biases),
      observed_(observed_codes(folded_.graph, images, activation_bits)) {}

TrainedNetwork Calibration::network(const std::set<std::string>& kept) const {
  auto network = folded_;
  auto quantization = quantization_of(folded_.graph, observed_, coded_without(folded_.graph, kept),
                                      activation_bits_);
  if (correct_biases_)
    network.graph = bias_corrected(folded_.graph, quantization, at::cat(first_images_));
  return quantized(std::move(network), std::move(quantization));
}

std::map<size_t, double> Calibration::errors(const TrainedNetwork& network) const {
  std::set<size_t> values{network.graph.output};
  for (const auto& operation : network.graph.operations)
    if (network.quantization.covers(operation)) values.insert(operation.output);
  return signal_to_noise(folded_.graph, Simulation(network), first_images_, values);
}

double Calibration::logits_error(const std::set<std::string>& kept) const {
  const auto& graph = folded_.graph;
  return signal_to_noise(graph, Simulation(network(kept)), first_images_, {graph.output})
      .at(graph.output);
}

std::map<std::string, double> Calibration::ends_worth_keeping(
    const std::set<std::string>& kept) const {
  std::map<std::string, double> worth;
  const auto layers = codable_layers(folded_.graph);
  if (layers.size() < 3) return worth;
  const double with_all = logits_error(kept);
  for (const auto& end : {layers.front(), layers.back()}) {
    if (kept.contains(end)) continue;
    auto more = kept;
    more.insert(end);
    const double gain = logits_error(more) - with_all;
    if (gain > kTwice) worth[end] = gain;
  }
  return worth;
}

std::vector<std::string> Calibration::by_sensitivity() const {
  auto layers = codable_layers(folded_.graph);
  std::map<std::string, double> errors;
  for (const auto& layer : layers) {
    std::set<std::string> others(layers.begin(), layers.end());
    others.erase(layer);
    errors[layer] = logits_error(others);
  }
  std::ranges::stable_sort(layers, {}, [&](const auto& layer) { return errors.at(layer); });
  return layers;
}

}  // namespace composer
