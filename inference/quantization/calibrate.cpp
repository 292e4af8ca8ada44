#include "inference/quantization/calibrate.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "inference/quantization/histogram.h"
#include "inference/quantization/pass.h"
#include "inference/quantization/points.h"

namespace composer {
namespace {

/// The values whose codes may be wanted, whatever is kept: which convolution computes a sum depends
/// on it.
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

std::string described_place(const Graph& graph, size_t value) {
  const auto producer = graph.values[value].producer;
  if (!producer) return "the network's input";
  const auto& operation = graph.operations[*producer];
  return std::string(name(operation.kind)) + " of '" + operation.layer + "'";
}

}  // namespace

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
        throw RunError("calibration: " + described_place(folded, value) + ": " + error.what());
      }
    });
  std::map<size_t, Affine> codes;
  for (const auto& [value, histogram] : histograms)
    if (!histogram.empty()) codes[value] = histogram.codes(activation_bits);
  return codes;
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

Quantization quantization_of(const Graph& folded, const std::map<size_t, Affine>& observed,
                             const std::set<size_t>& coded, int64_t activation_bits) {
  const at::NoGradGuard no_grad;
  Quantization all{.activation_bits = activation_bits, .activations = {}, .weight_scales = {}};
  for (const auto& [value, from] : coded_values(folded, coded)) {
    const auto found = observed.find(from);
    if (found == observed.end())
      throw RunError("calibration: " + described_place(folded, from) +
                     ": no image gave it a finite value");
    all.activations[value] = found->second;
  }
  for (const size_t operation : coded) {
    const size_t weight = *folded.operations[operation].inputs[1];
    all.weight_scales[weight] = scales_of(folded.values[weight].constant);
  }
  return all;
}

Quantization calibrated(const Graph& folded, const std::vector<at::Tensor>& images,
                        const std::set<std::string>& kept, int64_t activation_bits) {
  return quantization_of(folded, observed_codes(folded, images, activation_bits),
                         coded_without(folded, kept), activation_bits);
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

}  // namespace composer
