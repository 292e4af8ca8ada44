#include "inference/onnx/codes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "inference/graph/graph_json.h"

namespace composer {
namespace {

using Operation = Graph::Operation;

constexpr double kMostBiasCode = 1 << 30;

/// The only operation that reads a value, where it is of the kind.
const Operation* reader(const Graph& graph, size_t value, OperationKind kind) {
  const auto only = graph.only_reader(value);
  return only && graph.operations[*only].kind == kind ? &graph.operations[*only] : nullptr;
}

/// Codes of one addend of a sum with codes, the other's known: beyond them, the sum is beyond its
/// own.
Affine codes_of_addend(const Affine& sum, const Affine& other, int64_t most_code) {
  const auto low = [](const Affine& codes) {
    return -codes.scale * static_cast<double>(codes.zero_point);
  };
  const auto high = [&](const Affine& codes) {
    return codes.scale * static_cast<double>(most_code - codes.zero_point);
  };
  const double from = std::min(low(sum) - high(other), 0.0);
  const double scale = (std::max(high(sum) - low(other), 0.0) - from) / 255;
  return {.scale = scale, .zero_point = std::lround(-from / scale)};
}

/// Weights and biases of a layer by codes.
struct CodedWeights {
  at::Tensor weight;        ///< int8
  at::Tensor scales;        ///< float32 [out]
  at::Tensor bias, finest;  ///< int32 [out] and its scales, float32; undefined without a bias
};

CodedWeights coded(const at::Tensor& weight, const at::Tensor& weight_scales,
                   const at::Tensor& bias, double input_scale) {
  if (!bias.defined()) return {.weight = weight, .scales = weight_scales, .bias = {}, .finest = {}};
  const auto numbers = bias.to(at::kDouble);
  const auto scales = weight_scales.to(at::kDouble);
  const auto coarser = at::maximum(scales, numbers.abs() / (input_scale * kMostBiasCode));
  std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
  rows[0] = -1;
  const auto finest = (coarser * input_scale).to(at::kFloat);
  return {.weight = (weight.to(at::kDouble) * (scales / coarser).view(rows)).round().to(at::kChar),
          .scales = coarser.to(at::kFloat),
          .bias = (numbers / finest).round().to(at::kInt),
          .finest = finest};
}

/// Adds codes and what makes numbers of them; returns the numbers' name.
std::string add_numbers(OnnxGraph& onnx, const std::string& name, const at::Tensor& codes,
                        const at::Tensor& scales) {
  std::vector<std::string> inputs{onnx.add_constant(name, codes)};
  inputs.push_back(onnx.add_constant(inputs[0] + ".scale", scales));
  inputs.push_back(
      onnx.add_constant(inputs[0] + ".zero_point", at::zeros_like(scales, codes.options())));
  const auto output = onnx.unique(inputs[0] + ".numbers");
  onnx.add_node("DequantizeLinear", inputs, output, {{"axis", int64_t{0}}});
  return output;
}

/// What the maximum of codes is a code of: the layer before it may end in codes too.
void add_inputs_of_max_pools(const Graph& graph, std::map<size_t, Affine>& codes) {
  for (auto operation = graph.operations.rbegin(); operation != graph.operations.rend();
       ++operation) {
    if (operation->kind != OperationKind::max_pool2d) continue;
    const auto found = codes.find(operation->output);
    const size_t input = *operation->inputs[0];
    if (found != codes.end() && reader(graph, input, OperationKind::max_pool2d) != nullptr)
      codes.emplace(input, found->second);
  }
}

void add_addends(const Graph& graph, const Quantization& quantization,
                 std::map<size_t, Affine>& codes) {
  const int64_t most_code = (int64_t{1} << quantization.activation_bits) - 1;
  for (const auto& operation : graph.operations) {
    const size_t value = operation.output;
    if (!quantization.covers(operation) || codes.contains(value)) continue;
    const auto* add = reader(graph, value, OperationKind::add);
    if (add == nullptr) continue;
    const size_t other = *add->inputs[add->inputs[0] == value ? 1 : 0];
    size_t sum = add->output;
    if (!codes.contains(sum))
      if (const auto* relu = reader(graph, sum, OperationKind::relu)) sum = relu->output;
    if (codes.contains(sum) && codes.contains(other))
      codes[value] = codes_of_addend(codes.at(sum), codes.at(other), most_code);
  }
}

}  // namespace

std::map<size_t, Affine> codes_by_value(const Graph& graph, const Quantization& quantization) {
  auto all = quantization.activations;
  add_inputs_of_max_pools(graph, all);
  add_addends(graph, quantization, all);
  return all;
}

void add_rounding(OnnxGraph& onnx, const Affine& codes, const std::string& from,
                  const std::string& to) {
  const auto scale = onnx.add_constant(to + ".scale", at::full({}, codes.scale, at::kFloat));
  const auto zero =
      onnx.add_constant(to + ".zero_point", at::full({}, codes.zero_point, at::kByte));
  const auto rounded = onnx.unique(to + ".codes");
  onnx.add_node("QuantizeLinear", {from, scale, zero}, rounded);
  onnx.add_node("DequantizeLinear", {rounded, scale, zero}, to);
}

std::vector<std::string> add_coded_weights(OnnxGraph& onnx, const Graph& graph,
                                           const Operation& operation,
                                           const at::Tensor& weight_scales, double input_scale) {
  const size_t weight = *operation.inputs[1];
  const auto bias = operation.inputs.size() > 2 ? operation.inputs[2] : std::nullopt;
  const auto codes = coded(graph.values[weight].constant, weight_scales,
                           bias ? graph.values[*bias].constant : at::Tensor(), input_scale);
  std::vector<std::string> names{
      add_numbers(onnx, constant_name(graph, weight), codes.weight, codes.scales)};
  if (bias)
    names.push_back(add_numbers(onnx, constant_name(graph, *bias), codes.bias, codes.finest));
  return names;
}

}  // namespace composer
