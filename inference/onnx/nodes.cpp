#include "inference/onnx/nodes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace composer {
namespace {

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

/// The windows of a pool in one dimension.
struct PoolSpan {
  int64_t size, kernel, stride, padding, dilation, windows;

  /// Padding at the end so that the last window fits, at least `padding`.
  int64_t end_padding() const {
    const int64_t reach = (windows - 1) * stride + dilation * (kernel - 1) + 1;
    return std::max(padding, reach - size - padding);
  }
  /// The number of cells of the image and its padding in each window.
  at::Tensor cells() const {
    std::vector<double> counts;
    for (int64_t i = 0; i < windows; ++i)
      counts.push_back(static_cast<double>(std::min(kernel, size + 2 * padding - i * stride)));
    return at::tensor(counts, at::kDouble);
  }
};

/// One operation's nodes.
class NodeWriter {
 public:
  NodeWriter(OnnxGraph& onnx, const Graph& graph, const Graph::Operation& operation,
             std::vector<std::string> inputs, const std::string& output)
      : onnx_(onnx),
        graph_(graph),
        operation_(operation),
        inputs_(std::move(inputs)),
        output_(output) {}

  void write() {
    switch (operation_.kind) {
      case OperationKind::adaptive_avg_pool2d:
        return adaptive_pool();
      case OperationKind::add:
        return last("Add", inputs_);
      case OperationKind::avg_pool2d:
        return average_pool(options<Pool2dOptions>());
      case OperationKind::batch_norm:
        return batch_norm();
      case OperationKind::cat:
        return last("Concat", inputs_, {{"axis", int64_t{1}}});
      case OperationKind::conv2d:
        return conv();
      case OperationKind::flatten:
        return last("Flatten", inputs_, {{"axis", int64_t{1}}});
      case OperationKind::gelu:
        return gelu();
      case OperationKind::group_norm:
        return group_norm();
      case OperationKind::hardsigmoid:
        return last("HardSigmoid", inputs_, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
      case OperationKind::hardswish:
        return last("HardSwish", inputs_);
      case OperationKind::layer_norm:
        return layer_norm();
      case OperationKind::linear:
        return linear();
      case OperationKind::max_pool2d:
        return max_pool();
      case OperationKind::mean:
        return mean();
      case OperationKind::multiply:
        return last("Mul", inputs_);
      case OperationKind::relu:
        return last("Relu", inputs_);
      case OperationKind::scale:
        return last("Mul", {inputs_[0], number("factor", options<ScaleOptions>().factor)});
      case OperationKind::sigmoid:
        return last("Sigmoid", inputs_);
      case OperationKind::silu:
        return silu();
      case OperationKind::to_nchw:
        return last("Transpose", inputs_, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
      case OperationKind::to_nhwc:
        return last("Transpose", inputs_, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
      case OperationKind::unsqueeze:
        return last("Unsqueeze", {inputs_[0], integers("axes", {2, 3})});
      case OperationKind::expand:
      case OperationKind::standardize_weight:
        break;  // only those of weights are supported, which folding has computed
    }
    fail(std::string(name(operation_.kind)) + " of the input");
  }

 private:
  template <class Options>
  const Options& options() const {
    return std::get<Options>(operation_.options);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("export: layer '" + operation_.layer + "': " + what + " has no form in ONNX");
  }

  const std::vector<int64_t>& input_shape() const {
    return graph_.values[*operation_.inputs[0]].shape;
  }

  bool has_input(size_t index) const { return index < inputs_.size() && !inputs_[index].empty(); }

  /// The axes are an attribute, from operator set 18 on an input.
  void mean() {
    const std::vector<int64_t> axes{2, 3};
    const OnnxAttribute keepdims{"keepdims", int64_t{0}};
    if (onnx_.operator_set() < 18) return last("ReduceMean", inputs_, {{"axes", axes}, keepdims});
    last("ReduceMean", {inputs_[0], integers("axes", axes)}, {keepdims});
  }

  std::string constant(const std::string& part, const at::Tensor& tensor) {
    return onnx_.add_constant(output_ + "." + part, tensor);
  }
  std::string number(const std::string& part, double value) {
    return constant(part, at::full({}, value, at::kFloat));
  }
  std::string integers(const std::string& part, const std::vector<int64_t>& values) {
    return constant(part, at::tensor(values, at::kLong));
  }
  /// The name of the input, or if it is absent of a constant with `count` times `otherwise`.
  std::string input_or(size_t index, const std::string& part, int64_t count, double otherwise) {
    return has_input(index) ? inputs_[index] : constant(part, at::full({count}, otherwise));
  }

  /// Adds an inner node of the operation; returns its output's name.
  std::string step(const std::string& kind, const std::string& part,
                   const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {}) {
    const auto output = onnx_.unique(output_ + "." + part);
    onnx_.add_node(kind, inputs, output, attributes);
    return output;
  }
  void last(const std::string& kind, const std::vector<std::string>& inputs,
            const std::vector<OnnxAttribute>& attributes = {}) {
    onnx_.add_node(kind, inputs, output_, attributes);
  }

  void conv() {
    const auto& o = options<Conv2dOptions>();
    const auto [height, width] = o.padding;
    last("Conv", inputs_,
         {{"dilations", std::vector<int64_t>(o.dilation.begin(), o.dilation.end())},
          {"group", o.groups},
          {"kernel_shape", std::vector<int64_t>(o.kernel.begin(), o.kernel.end())},
          {"pads", std::vector<int64_t>{height, width, height, width}},
          {"strides", std::vector<int64_t>(o.stride.begin(), o.stride.end())}});
  }

  /// Gemm takes two-dimensional inputs only.
  void linear() {
    if (input_shape().size() == 2) return last("Gemm", inputs_, {{"transB", int64_t{1}}});
    const auto weight =
        step("Transpose", "weight", {inputs_[1]}, {{"perm", std::vector<int64_t>{1, 0}}});
    if (!has_input(2)) return last("MatMul", {inputs_[0], weight});
    last("Add", {step("MatMul", "product", {inputs_[0], weight}), inputs_[2]});
  }

  void batch_norm() {
    if (!has_input(3) || !has_input(4)) fail("batch_norm by the statistics of the batch");
    const int64_t channels = input_shape().at(1);
    last("BatchNormalization",
         {inputs_[0], input_or(1, "weight", channels, 1), input_or(2, "bias", channels, 0),
          inputs_[3], inputs_[4]},
         {{"epsilon", static_cast<float>(options<BatchNormOptions>().eps)}});
  }

  void group_norm() {
    const auto& o = options<GroupNormOptions>();
    const auto& shape = input_shape();
    auto x = step("Reshape", "groups", {inputs_[0], integers("of_groups", {0, o.groups, -1})});
    x = step("InstanceNormalization", "normalized",
             {x, constant("ones", at::ones({o.groups})), constant("zeros", at::zeros({o.groups}))},
             {{"epsilon", static_cast<float>(o.eps)}});
    std::vector<int64_t> whole(shape), channels(shape.size() - 1, 1);
    whole[0] = 0, channels[0] = -1;
    x = step("Reshape", "whole", {x, integers("of_whole", whole)});
    const auto of_channels = integers("of_channels", channels);
    const auto factor =
        step("Reshape", "factor", {input_or(1, "weight", shape[1], 1), of_channels});
    const auto offset = step("Reshape", "offset", {input_or(2, "bias", shape[1], 0), of_channels});
    last("Add", {step("Mul", "scaled", {x, factor}), offset});
  }

  void layer_norm() {
    const auto& o = options<LayerNormOptions>();
    std::vector<std::string> inputs{inputs_[0], input_or(1, "weight", o.features, 1)};
    if (has_input(2)) inputs.push_back(inputs_[2]);
    last("LayerNormalization", inputs,
         {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(o.eps)}});
  }

  /// OpenVINO moves an activation that it recognizes before a max pool, as if it were monotonic.
  /// Behind a max pool, GELU and SiLU are therefore written as x * (s / 2 + 1 / 2), which it does
  /// not recognize.
  bool behind_max_pool() const {
    return std::ranges::any_of(graph_.operations, [&](const Graph::Operation& other) {
      return other.kind == OperationKind::max_pool2d && other.output == *operation_.inputs[0];
    });
  }

  void gated_by(const std::string& s) {
    const auto half = number("half", 0.5);
    const auto gate = step("Add", "gate", {step("Mul", "halved", {s, half}), half});
    last("Mul", {inputs_[0], gate});
  }

  /// x / 2 * (1 + erf(x / sqrt(2))), in the order that runtimes recognize as one operation.
  void gelu() {
    auto x = step("Div", "scaled", {inputs_[0], number("root", std::sqrt(2.0))});
    x = step("Erf", "erf", {x});
    if (behind_max_pool()) return gated_by(x);
    x = step("Add", "risen", {x, number("one", 1)});
    x = step("Mul", "gated", {inputs_[0], x});
    last("Mul", {x, number("half", 0.5)});
  }

  /// x * sigmoid(x), where sigmoid(x) = (1 + tanh(x / 2)) / 2.
  void silu() {
    if (!behind_max_pool()) return last("Mul", {inputs_[0], step("Sigmoid", "gate", inputs_)});
    gated_by(step("Tanh", "tanh", {step("Mul", "small", {inputs_[0], number("factor", 0.5)})}));
  }

  PoolSpan span(const Pool2dOptions& o, size_t dimension, int64_t dilation) const {
    return {.size = input_shape().at(2 + dimension),
            .kernel = o.kernel[dimension],
            .stride = o.stride[dimension],
            .padding = o.padding[dimension],
            .dilation = dilation,
            .windows = graph_.values[operation_.output].shape.at(2 + dimension)};
  }

  /// The padding covers the last window, because runtimes disagree on ceil_mode.
  static std::vector<OnnxAttribute> window(const Pool2dOptions& o, const PoolSpan& rows,
                                           const PoolSpan& columns) {
    return {{"kernel_shape", std::vector<int64_t>(o.kernel.begin(), o.kernel.end())},
            {"pads", std::vector<int64_t>{rows.padding, columns.padding, rows.end_padding(),
                                          columns.end_padding()}},
            {"strides", std::vector<int64_t>(o.stride.begin(), o.stride.end())}};
  }

  void max_pool() {
    const auto& o = options<Pool2dOptions>();
    auto attributes = window(o, span(o, 0, o.dilation[0]), span(o, 1, o.dilation[1]));
    attributes.push_back({"dilations", std::vector<int64_t>(o.dilation.begin(), o.dilation.end())});
    last("MaxPool", inputs_, attributes);
  }

  void average_pool(const Pool2dOptions& o) {
    const auto rows = span(o, 0, 1), columns = span(o, 1, 1);
    if (o.kernel == std::array{rows.size, columns.size} && rows.padding + columns.padding == 0)
      return last("GlobalAveragePool", inputs_);
    auto attributes = window(o, rows, columns);
    attributes.push_back({"count_include_pad", int64_t{1}});
    if (rows.end_padding() == rows.padding && columns.end_padding() == columns.padding)
      return last("AveragePool", inputs_, attributes);
    const auto whole = static_cast<double>(o.kernel[0] * o.kernel[1]);
    const auto factors = whole / at::outer(rows.cells(), columns.cells());
    const auto x = step("AveragePool", "whole", inputs_, attributes);
    last("Mul", {x, constant("share", factors.to(at::kFloat))});
  }

  void adaptive_pool() {
    const auto [height, width] = options<AdaptivePool2dOptions>().size;
    const auto& shape = input_shape();
    if (shape.at(2) % height != 0 || shape.at(3) % width != 0)
      fail("adaptive_avg_pool2d from " + size_text(shape[2], shape[3]) + " to " +
           size_text(height, width) + ", whose cells are of several sizes,");
    const std::array<int64_t, 2> cell{shape[2] / height, shape[3] / width};
    average_pool({.kernel = cell, .stride = cell});
  }

  OnnxGraph& onnx_;
  const Graph& graph_;
  const Graph::Operation& operation_;
  const std::vector<std::string> inputs_;
  const std::string& output_;
};

}  // namespace

void add_nodes(OnnxGraph& onnx, const Graph& graph, const Graph::Operation& operation,
               std::vector<std::string> inputs, const std::string& output) {
  NodeWriter(onnx, graph, operation, std::move(inputs), output).write();
}

}  // namespace composer
