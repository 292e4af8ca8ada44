#include "inference/quantization/quantization_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "inference/graph/graph_json.h"
#include "inference/graph/json_location.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

void refuse_unless(bool fits, const std::string& otherwise) {
  if (!fits) throw std::invalid_argument(otherwise);
}

size_t value_in(const Json& entry, const Graph& graph) {
  const auto value = read_key<size_t>(entry, "value");
  refuse_unless(value < graph.values.size(), "the graph has no such value");
  return value;
}

void read_activation(const Json& entry, const Graph& graph, Quantization& all) {
  const auto value = value_in(entry, graph);
  const Affine codes{read_key<double>(entry, "scale"), read_key<int64_t>(entry, "zero_point")};
  refuse_unless(!graph.values[value].constant.defined(),
                "value " + std::to_string(value) + " is constant, and no activation");
  using Scale = std::numeric_limits<float>;  // of kernels
  refuse_unless(codes.scale >= Scale::min() && codes.scale <= Scale::max(),
                "its scale is not positive, or no float");
  refuse_unless(codes.zero_point >= 0 && codes.zero_point < int64_t{1} << all.activation_bits,
                "its zero_point is no code of " + std::to_string(all.activation_bits) + " bits");
  refuse_unless(all.activations.emplace(value, codes).second,
                "value " + std::to_string(value) + " has codes already");
}

void read_weight(const Json& entry, const Graph& graph, const TensorMap& tensors,
                 Quantization& all) {
  const auto index = value_in(entry, graph);
  const auto& weight = graph.values[index];
  refuse_unless(weight.constant.defined() && weight.type == at::kChar && !weight.shape.empty(),
                "value " + std::to_string(index) + " is no weight of type int8");
  const auto name = read_key<std::string>(entry, "scales");
  const auto found = tensors.find(name);
  refuse_unless(found != tensors.end(), "there is no tensor '" + name + "'");
  const auto& scales = found->second;
  refuse_unless(
      scales.scalar_type() == at::kFloat && scales.dim() == 1 && scales.size(0) == weight.shape[0],
      "tensor '" + name + "' has no scale for each of the " + std::to_string(weight.shape[0]) +
          " outputs");
  refuse_unless(scales.isfinite().logical_and(scales > 0).all().item<bool>(),
                "tensor '" + name + "' has scales that are not positive");
  all.weight_scales[index] = scales;
}

}  // namespace

std::string scales_name(const Graph& graph, size_t weight) {
  return constant_name(graph, weight) + ".scales";
}

Json to_json(const Quantization& quantization, const Graph& graph) {
  Json activations = Json::array(), weights = Json::array();
  for (const auto& [value, codes] : quantization.activations)
    activations.push_back(
        {{"value", value}, {"scale", codes.scale}, {"zero_point", codes.zero_point}});
  for (const auto& [value, scales] : quantization.weight_scales)
    weights.push_back({{"value", value}, {"scales", scales_name(graph, value)}});
  return {{"activation_bits", quantization.activation_bits},
          {"activations", std::move(activations)},
          {"weights", std::move(weights)}};
}

Quantization quantization_from(const Json& json, const Graph& graph, const TensorMap& tensors) {
  Quantization all;
  read_key(json, "activation_bits", all.activation_bits);
  refuse_unless(all.activation_bits == 7 || all.activation_bits == 8,
                "activation_bits: must be 7 or 8");
  read_entries(json, "activations", [&](const Json& entry) { read_activation(entry, graph, all); });
  read_entries(json, "weights",
               [&](const Json& entry) { read_weight(entry, graph, tensors, all); });
  return all;
}

void check_codes(const Graph& graph, const Quantization& quantization) {
  for (size_t i = 0; i < graph.values.size(); ++i)
    refuse_unless(graph.values[i].type != at::kChar || quantization.weight_scales.contains(i),
                  "tensor '" + constant_name(graph, i) + "' is int8 and has no scales");
  for (const auto& operation : graph.operations) {
    if (!quantization.covers(operation)) continue;
    const auto what = std::string(name(operation.kind)) + " of '" + operation.layer + "' ";
    refuse_unless(quantization.activations.contains(*operation.inputs[0]),
                  what + "has a weight of codes, and its input has none");
    refuse_unless(operation.inputs.size() < 3 || !operation.inputs[2] ||
                      graph.constant(operation, 2).defined(),
                  what + "has a weight of codes, and a bias that is no constant");
  }
}

}  // namespace composer
