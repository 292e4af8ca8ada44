#include "inference/onnx/onnx_file.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/description.h"
#include "inference/fold.h"
#include "inference/graph/graph_json.h"
#include "inference/onnx/codes.h"
#include "inference/onnx/nodes.h"
#include "inference/onnx/onnx_graph.h"

namespace composer {
namespace {

/// Makes an ONNX graph of one of ours.
class OnnxTranslation {
 public:
  OnnxTranslation(OnnxGraph& onnx, const Graph& graph, const Quantization& quantization)
      : onnx_(onnx),
        graph_(graph),
        quantization_(quantization),
        codes_(codes_by_value(graph, quantization)) {}

  /// preprocessing: null where the input is normalised already.
  void run(const Normalization* preprocessing) {
    add_input(preprocessing);
    const auto& result = graph_.values[graph_.output];
    names_[graph_.output] = onnx_.unique("logits");
    onnx_.add_output("logits", at::kFloat, result.shape);
    for (const auto& operation : graph_.operations) add(operation);
  }

 private:
  void add_input(const Normalization* preprocessing) {
    const auto& shape = graph_.values[graph_.input].shape;
    auto images = onnx_.unique("images");
    if (preprocessing != nullptr) {
      onnx_.add_input(images, at::kByte, {shape[0], shape[2], shape[3], shape[1]});
      images = normalized(images, *preprocessing);
    } else {
      onnx_.add_input(images, at::kFloat, shape);
    }
    names_[graph_.input] = images;
    if (!codes_.contains(graph_.input)) return;
    names_[graph_.input] = onnx_.unique("images.rounded");
    add_rounding(onnx_, codes_.at(graph_.input), images, names_[graph_.input]);
  }

  std::string normalized(const std::string& images, const Normalization& by) {
    const auto of_channels = [&](const std::string& name, const std::vector<double>& values) {
      return onnx_.add_constant(name, at::tensor(values, at::kFloat).view({1, -1, 1, 1}));
    };
    onnx_.add_node("Cast", {images}, onnx_.unique("images.float"), {{"to", int64_t{1}}});
    onnx_.add_node("Transpose", {"images.float"}, onnx_.unique("images.planes"),
                   {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
    onnx_.add_node("Sub", {"images.planes", of_channels("mean", by.mean)},
                   onnx_.unique("images.centered"));
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

  /// Of the value; a constant is added when it is first asked for.
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
  OnnxGraph onnx(path);
  OnnxTranslation(onnx, graph, network.quantization)
      .run(options.preprocessing ? &network.preparation.normalization : nullptr);
  onnx.write({{"network.json", description_text(description_of(network))}});
}

}  // namespace composer
