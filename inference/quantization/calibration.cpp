#include "inference/quantization/calibration.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "inference/quantization/histogram.h"
#include "inference/quantization/points.h"
#include "inference/quantization/simulate.h"

namespace composer {
namespace {

constexpr int64_t kFirstImages = 64;
constexpr int64_t kAtOnce = 8;  // images of a pass, whose numbers are all held

/// 10 log10(2): twice the noise, in dB.
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

/// All values that may get codes for any choice of kept layers, as the choice decides which
/// convolution computes a sum.
std::set<size_t> values_to_observe(const Graph& graph) {
  const auto all = codable_operations(graph);
  std::set<size_t> values;
  const auto add = [&](const std::map<size_t, size_t>& coded) {
    for (const auto& [value, from] : coded) values.insert(from);
  };
  add(coded_values(graph, {all.begin(), all.end()}));
  for (const size_t operation : all) add(coded_values(graph, {operation}));
  return values;
}

std::string described_value(const Graph& graph, size_t value) {
  const auto producer = graph.values[value].producer;
  if (!producer) return "the network's input";
  const auto& operation = graph.operations[*producer];
  return std::string(name(operation.kind)) + " of '" + operation.layer + "'";
}

/// Codes for every value of a folded graph that may have some. images: batches, float32 [N, C, H,
/// W], normalised. Throws RunError if a layer's values are not numbers.
std::map<size_t, Affine> observed_codes(const Graph& folded, const std::vector<at::Tensor>& images,
                                        int64_t activation_bits) {
  const auto wanted = values_to_observe(folded);
  std::map<size_t, Histogram> histograms;
  for (const auto& batch : images)
    pass(folded, batch, [&](size_t value, at::Tensor& tensor) {
      if (!wanted.contains(value)) return;
      try {
        histograms[value].add(tensor);
      } catch (const RunError& error) {
        throw RunError("calibration: " + described_value(folded, value) + ": " + error.what());
      }
    });
  std::map<size_t, Affine> codes;
  for (const auto& [value, histogram] : histograms)
    if (!histogram.empty()) codes[value] = histogram.codes(activation_bits);
  return codes;
}

/// A quantization of the weights of the operations `coded` and of the values that go with them.
Quantization quantization_of(const Graph& folded, const std::map<size_t, Affine>& observed,
                             const std::set<size_t>& coded, int64_t activation_bits) {
  const at::NoGradGuard no_grad;
  Quantization all{.activation_bits = activation_bits, .activations = {}, .weight_scales = {}};
  for (const auto& [value, from] : coded_values(folded, coded)) {
    const auto found = observed.find(from);
    if (found == observed.end())
      throw RunError("calibration: " + described_value(folded, from) +
                     ": no image gave it a finite value");
    all.activations[value] = found->second;
  }
  for (const size_t operation : coded) {
    const size_t weight = *folded.operations[operation].inputs[1];
    all.weight_scales[weight] = scales_of(folded.values[weight].constant);
  }
  return all;
}

/// The mean of each channel: [N, C, ...] -> [1, C, 1...].
at::Tensor means_of_channels(const at::Tensor& values) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < values.dim(); ++i)
    if (i != 1) others.push_back(i);
  return values.mean(others, /*keepdim=*/true);
}

void add_to_bias(Graph& graph, Graph::Operation& operation, const at::Tensor& more) {
  const bool biased = operation.inputs.size() > 2 && operation.inputs[2];
  const auto bias = biased ? graph.values[*operation.inputs[2]].constant + more : more.contiguous();
  if (biased && graph.readers(*operation.inputs[2]).size() == 1) {
    graph.values[*operation.inputs[2]].constant = bias;
    return;
  }
  operation.inputs.resize(3);
  operation.inputs[2] = add_constant(graph, bias, {});
  if (auto* options = std::get_if<Conv2dOptions>(&operation.options)) options->bias = true;
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

std::set<size_t> coded_without(const Graph& folded, const std::set<std::string>& kept) {
  std::set<size_t> coded, floats;  // operations; weights
  const auto all = codable_operations(folded);
  for (const size_t operation : all)
    if (kept.contains(layer_name(folded, folded.operations[operation])))
      floats.insert(*folded.operations[operation].inputs[1]);
  for (const size_t operation : all)
    if (!floats.contains(*folded.operations[operation].inputs[1])) coded.insert(operation);
  return coded;
}

TrainedNetwork quantized(TrainedNetwork network, Quantization quantization) {
  const at::NoGradGuard no_grad;
  for (const auto& [weight, scales] : quantization.weight_scales) {
    auto& value = network.graph.values.at(weight);
    value.constant = codes_of(value.constant, scales);
    value.type = at::kChar;
  }
  network.quantization = std::move(quantization);
  return network;
}

Graph bias_corrected(Graph graph, const Quantization& quantization, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  std::map<size_t, size_t> coded;  // from the output to its operation
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    if (quantization.covers(graph.operations[i])) coded[graph.operations[i].output] = i;
  }
  std::map<size_t, at::Tensor> means;
  pass(graph, images, [&](size_t value, at::Tensor& tensor) {
    if (coded.contains(value)) means[value] = means_of_channels(tensor);
  });
  Simulation(graph, quantization).run(images, [&](size_t value, at::Tensor& tensor) {
    if (!coded.contains(value)) return;
    auto& lost = means.at(value);
    lost = lost - means_of_channels(tensor);
    tensor = tensor + lost;
  });
  for (const auto& [value, operation] : coded)
    add_to_bias(graph, graph.operations[operation], means.at(value).flatten());
  return graph;
}

std::optional<size_t> fewest_enough(size_t most, const std::function<bool(size_t count)>& enough) {
  if (enough(0)) return 0;
  size_t too_few = 0, count = std::min<size_t>(1, most);
  while (count == too_few || !enough(count)) {
    if (count == most) return {};
    too_few = count;
    count = std::min(2 * count, most);
  }
  while (count - too_few > 1) {
    const size_t middle = too_few + (count - too_few) / 2;
    (enough(middle) ? count : too_few) = middle;
  }
  return count;
}

std::optional<std::vector<std::string>> fewest_kept(
    const std::function<std::vector<std::string>()>& worst_first,
    const std::function<bool(const std::set<std::string>& kept)>& enough) {
  if (enough({})) return std::vector<std::string>();
  auto kept = worst_first();
  const auto first = [&](size_t count) {
    return std::set(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
  };
  const auto count =
      fewest_enough(kept.size(), [&](size_t tried) { return tried > 0 && enough(first(tried)); });
  if (!count) return {};
  kept.resize(*count);
  // The last one is needed: the search has tried without it.
  for (size_t i = kept.size() - 1; i-- > 0;) {
    std::set fewer(kept.begin(), kept.end());
    fewer.erase(kept[i]);
    if (enough(fewer)) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return kept;
}

}  // namespace composer
