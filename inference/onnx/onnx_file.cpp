#include "inference/onnx/onnx_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/description.h"
#include "inference/fold.h"
#include "inference/graph/graph_json.h"
#include "inference/onnx/nodes.h"
#include "inference/onnx/onnx_graph.h"
#include "inference/onnx/resize_nodes.h"
#include "inference/quantization/codes.h"

namespace composer {
namespace {

using Operation = Graph::Operation;

constexpr double kMostBiasCode = 1 << 30;

/// The only operation that reads the value, if it is of the kind; else null.
const Operation* reader(const Graph& graph, size_t value, OperationKind kind) {
  const auto only = graph.only_reader(value);
  return only && graph.operations[*only].kind == kind ? &graph.operations[*only] : nullptr;
}

/// Codes of one addend of a sum, from the codes of the sum and of the other addend. A number
/// outside their range makes the sum leave its range too.
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

/// The codes of the weight and the bias of a layer.
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
  const auto finest = (coarser * input_scale).to(at::kFloat);
  return {.weight = (weight.to(at::kDouble) * for_each_output(scales / coarser, weight.dim()))
                        .round()
                        .to(at::kChar),
          .scales = coarser.to(at::kFloat),
          .bias = (numbers / finest).round().to(at::kInt),
          .finest = finest};
}

/// Adds codes and the node that dequantizes them; returns the name of its output.
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

/// Gives the input of a max pool the codes of its output, so that the layer before can end in
/// codes.
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

/// Adds nodes that quantize the tensor `from` and dequantize it as `to`.
void add_rounding(OnnxGraph& onnx, const Affine& codes, const std::string& from,
                  const std::string& to) {
  const auto scale = onnx.add_constant(to + ".scale", at::full({}, codes.scale, at::kFloat));
  const auto zero =
      onnx.add_constant(to + ".zero_point", at::full({}, codes.zero_point, at::kByte));
  const auto rounded = onnx.unique(to + ".codes");
  onnx.add_node("QuantizeLinear", {from, scale, zero}, rounded);
  onnx.add_node("DequantizeLinear", {rounded, scale, zero}, to);
}

/// The names of the operation's dequantized weight and, where it has one, bias. A bias has int32
/// codes of scale input_scale * weight scale. Where the bias is too large for that scale, the scale
/// of the channel's weights grows.
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

/// Translates a graph to an ONNX graph.
class OnnxTranslation {
 public:
  OnnxTranslation(OnnxGraph& onnx, const Graph& graph, const Quantization& quantization)
      : onnx_(onnx),
        graph_(graph),
        quantization_(quantization),
        codes_(codes_by_value(graph, quantization)) {}

  void run(const TrainedNetwork& network, const OnnxOptions& options) {
    add_input(network.preparation, network.resize_filter, options.preprocessing);
    const auto& result = graph_.values[graph_.output];
    names_[graph_.output] = onnx_.unique("logits");
    onnx_.add_output("logits", at::kFloat, result.shape);
    for (const auto& operation : graph_.operations) add(operation);
    if (!options.probabilities) return;
    onnx_.add_output("probabilities", at::kFloat, result.shape);
    onnx_.add_node("Softmax", {names_[graph_.output]}, onnx_.unique("probabilities"),
                   {{"axis", int64_t{-1}}});
  }

 private:
  void add_input(const Preparation& preparation, const std::string& filter,
                 Preprocessing preprocessing) {
    const auto& shape = graph_.values[graph_.input].shape;
    auto images = onnx_.unique("images");
    switch (preprocessing) {
      case Preprocessing::none:
        onnx_.add_input(images, at::kFloat, shape);
        break;
      case Preprocessing::normalize:
        onnx_.add_input(images, at::kByte, {shape[0], shape[2], shape[3], shape[1]});
        images = normalized(planes(onnx_, images), preparation.normalization);
        break;
      case Preprocessing::resize:
      case Preprocessing::portable:
        onnx_.add_input(images, at::kByte, {shape[0], -1, -1, shape[1]});
        const bool portable = preprocessing == Preprocessing::portable;
        images = normalized(resized_planes(onnx_, images, preparation, filter, portable),
                            preparation.normalization);
        break;
    }
    names_[graph_.input] = images;
    if (!codes_.contains(graph_.input)) return;
    names_[graph_.input] = onnx_.unique("images.rounded");
    add_rounding(onnx_, codes_.at(graph_.input), images, names_[graph_.input]);
  }

  /// images: float32 [N, C, H, W].
  std::string normalized(const std::string& images, const Normalization& by) {
    const auto of_channels = [&](const std::string& name, const std::vector<double>& values) {
      return onnx_.add_constant(name, at::tensor(values, at::kFloat).view({1, -1, 1, 1}));
    };
    onnx_.add_node("Sub", {images, of_channels("mean", by.mean)}, onnx_.unique("images.centered"));
    const auto output = onnx_.unique("images.normalized");
    onnx_.add_node("Div", {"images.centered", of_channels("std", by.std)}, output);
    return output;
  }

  void add(const Graph::Operation& operation) {
    const auto inputs = inputs_of(operation);
    auto& output = names_[operation.output];
    if (output.empty())
      output = onnx_.unique((operation.layer.empty() ? "" : operation.layer + ".") +
                            std::string(name(operation.kind)));
    if (!codes_.contains(operation.output))
      return add_nodes(onnx_, graph_, operation, inputs, output);
    const auto exact = onnx_.unique(output + ".exact");
    add_nodes(onnx_, graph_, operation, inputs, exact);
    add_rounding(onnx_, codes_.at(operation.output), exact, output);
  }

  std::vector<std::string> inputs_of(const Graph::Operation& operation) {
    if (quantization_.covers(operation))
      return coded_inputs(operation, quantization_.weight_scales.at(*operation.inputs[1]));
    std::vector<std::string> inputs;
    for (const auto& input : operation.inputs) inputs.push_back(input ? name_of(*input) : "");
    return inputs;
  }

  std::vector<std::string> coded_inputs(const Graph::Operation& operation,
                                        const at::Tensor& scales) {
    const auto codes = codes_.find(*operation.inputs[0]);
    if (codes == codes_.end())
      throw UserError("export: layer '" + operation.layer +
                      "': its weight has codes, but not its input");
    auto inputs = add_coded_weights(onnx_, graph_, operation, scales, codes->second.scale);
    inputs.insert(inputs.begin(), name_of(codes->first));
    return inputs;
  }

  /// The name of the value; a constant is added at its first use.
  const std::string& name_of(size_t value) {
    auto& given = names_[value];
    if (given.empty())
      given = onnx_.add_constant(constant_name(graph_, value),
                                 graph_.values[value].constant.to(at::kFloat));
    return given;
  }

  OnnxGraph& onnx_;
  const Graph& graph_;
  const Quantization& quantization_;
  const std::map<size_t, Affine> codes_;
  std::map<size_t, std::string> names_;
};

}  // namespace

void write_onnx(const std::string& path, const TrainedNetwork& network,
                const OnnxOptions& options) {
  const auto graph = folded(network);
  if (!graph.values[graph.output].producer)
    throw UserError(path + ": the network's output does not depend on its images");
  const bool resize = options.preprocessing == Preprocessing::resize;
  if (resize || options.preprocessing == Preprocessing::portable) check_resizes(network);
  OnnxGraph onnx(path, resize ? 18 : 17);
  OnnxTranslation(onnx, graph, network.quantization).run(network, options);
  onnx.write({{"network.json", description_text(description_of(network))}});
}

std::map<size_t, Affine> codes_by_value(const Graph& graph, const Quantization& quantization) {
  auto all = quantization.activations;
  add_inputs_of_max_pools(graph, all);
  add_addends(graph, quantization, all);
  return all;
}

}  // namespace composer
