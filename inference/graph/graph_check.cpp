#include "inference/graph/graph_check.h"

#include <ATen/core/Formatting.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "inference/graph/trained_network.h"

namespace composer {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 31;  // most numbers of a tensor

/// Fewest and most inputs of an operation.
std::pair<size_t, size_t> input_counts(OperationKind kind) {
  switch (kind) {
    case OperationKind::add:
    case OperationKind::multiply:
      return {2, 2};
    case OperationKind::batch_norm:
      return {5, 5};
    case OperationKind::conv2d:
    case OperationKind::linear:
      return {2, 3};
    case OperationKind::group_norm:
    case OperationKind::layer_norm:
      return {1, 3};
    case OperationKind::cat:
      return {1, SIZE_MAX};
    default:
      return {1, 1};
  }
}

void check_shape(const std::vector<int64_t>& shape) {
  int64_t numbers = 1;
  for (const int64_t size : shape) {
    if (size < 1 || size > kMostNumbers / numbers)
      throw std::invalid_argument("a value has the shape " + shape_text(shape));
    numbers *= size;
  }
}

/// Tracks which values exist, to check that each exists before it is read.
class KnownValues {
 public:
  explicit KnownValues(const Graph& graph) : known_(graph.values.size()) {
    for (size_t i = 0; i < known_.size(); ++i) known_[i] = graph.values[i].constant.defined();
    if (graph.input >= known_.size() || graph.output >= known_.size() || known_[graph.input])
      throw std::invalid_argument("its input or output is no value of it");
    known_[graph.input] = true;
  }

  void check_inputs(const Graph::Operation& operation) const {
    const auto [fewest, most] = input_counts(operation.kind);
    if (operation.inputs.size() < fewest || operation.inputs.size() > most)
      throw std::invalid_argument("has " + std::to_string(operation.inputs.size()) + " inputs");
    const bool norm = operation.kind == OperationKind::batch_norm;  // without weight and bias
    for (size_t i = 0; i < operation.inputs.size(); ++i)
      if (!operation.inputs[i] && i < fewest && !(norm && (i == 1 || i == 2)))
        throw std::invalid_argument("lacks input " + std::to_string(i));
    for (const auto& input : operation.inputs)
      if (input && (*input >= known_.size() || !known_[*input]))
        throw std::invalid_argument("reads a value that nothing made");
  }

  void add_output(const Graph::Operation& operation) {
    if (operation.output >= known_.size() || known_[operation.output])
      throw std::invalid_argument("its output is made twice, or no value");
    known_[operation.output] = true;
  }

  bool has(size_t value) const { return known_[value]; }

 private:
  std::vector<bool> known_;
};

void check_operation(const Graph& graph, const Graph::Operation& operation, KnownValues& known) {
  known.check_inputs(operation);
  if (operation.kind == OperationKind::batch_norm &&
      std::get<BatchNormOptions>(operation.options).training)
    throw std::invalid_argument("is by the batch's statistics");
  known.add_output(operation);
  const auto shape = output_shape(graph, operation);
  const auto& output = graph.values[operation.output];
  if (shape != output.shape || output.type != at::kFloat)
    throw std::invalid_argument("gives float " + shape_text(shape) + ", not " +
                                c10::toString(output.type) + " " + shape_text(output.shape));
}

using Shape = std::vector<int64_t>;

constexpr int64_t kMostOption = 1 << 20;

void require(bool fits, const std::string& otherwise) {
  if (!fits) throw std::invalid_argument(otherwise);
}

void require_option(bool fits, int64_t value, const char* what) {
  require(fits && value <= kMostOption, std::string(what) + " cannot be " + std::to_string(value));
}

class Shapes {
 public:
  Shapes(const Graph& graph, const Graph::Operation& operation)
      : graph_(graph), operation_(operation) {}

  Shape of_output() const {
    check_types();
    switch (operation_.kind) {
      case OperationKind::add:
      case OperationKind::multiply:
        return broadcast();
      case OperationKind::adaptive_avg_pool2d:
        return adaptive();
      case OperationKind::avg_pool2d:
      case OperationKind::max_pool2d:
        return pooled();
      case OperationKind::batch_norm:
      case OperationKind::group_norm:
      case OperationKind::layer_norm:
        return normalized();
      case OperationKind::cat:
        return together();
      case OperationKind::conv2d:
        return convolved();
      case OperationKind::expand:
        return expanded();
      case OperationKind::flatten:
        require(input().size() >= 2, "takes no input of shape " + shape_text(input()));
        return {input()[0], product(input(), 1)};
      case OperationKind::linear:
        return multiplied();
      case OperationKind::mean:
        require_dimensions(4);
        return {input()[0], input()[1]};
      case OperationKind::unsqueeze:
        require_dimensions(2);
        return {input()[0], input()[1], 1, 1};
      case OperationKind::to_nchw:
        require_dimensions(4);
        return {input()[0], input()[3], input()[1], input()[2]};
      case OperationKind::to_nhwc:
        require_dimensions(4);
        return {input()[0], input()[2], input()[3], input()[1]};
      case OperationKind::gelu:
      case OperationKind::hardsigmoid:
      case OperationKind::hardswish:
      case OperationKind::relu:
      case OperationKind::scale:
      case OperationKind::sigmoid:
      case OperationKind::silu:
        return input();
      case OperationKind::standardize_weight:
        require(input().size() >= 2, "takes no input of shape " + shape_text(input()));
        return input();
    }
    throw std::invalid_argument("is of no known kind");
  }

 private:
  const Shape& input(size_t i = 0) const { return graph_.values[*operation_.inputs[i]].shape; }
  bool has(size_t i) const { return i < operation_.inputs.size() && operation_.inputs[i]; }
  template <class Options>
  const Options& options() const {
    return std::get<Options>(operation_.options);
  }

  static int64_t product(const Shape& shape, size_t from) {
    int64_t all = 1;
    for (size_t i = from; i < shape.size(); ++i) all *= shape[i];
    return all;
  }

  void require_dimensions(size_t count) const {
    require(input().size() == count, "takes no input of shape " + shape_text(input()));
  }

  /// Inputs are float32; weights may also be int8.
  void check_types() const {
    const bool weighted = has_weight(operation_);
    for (size_t i = 0; i < operation_.inputs.size(); ++i) {
      if (!has(i)) continue;
      const auto type = graph_.values[*operation_.inputs[i]].type;
      require(
          type == at::kFloat || (weighted && i == 1 && type == at::kChar),
          "takes no " + std::string(c10::toString(type)) + " as its input " + std::to_string(i));
    }
  }

  /// Requires each present input from index `from` on to have one number per channel.
  void require_channels(int64_t channels, size_t from) const {
    for (size_t i = from; i < operation_.inputs.size(); ++i)
      require(!has(i) || input(i) == Shape{channels}, "its input " + std::to_string(i) +
                                                          " does not fit " +
                                                          std::to_string(channels) + " channels");
  }

  Shape broadcast() const {
    auto left = input(0), right = input(1);
    const size_t size = std::max(left.size(), right.size());
    left.insert(left.begin(), size - left.size(), 1);
    right.insert(right.begin(), size - right.size(), 1);
    Shape both;
    for (size_t i = 0; i < size; ++i) {
      require(
          left[i] == right[i] || left[i] == 1 || right[i] == 1,
          "does not fit " + shape_text(input(0)) + " and " + shape_text(input(1)) + " together");
      both.push_back(std::max(left[i], right[i]));
    }
    return both;
  }

  Shape adaptive() const {
    require_dimensions(4);
    const auto size = options<AdaptivePool2dOptions>().size;
    for (const int64_t side : size) require_option(side > 0, side, "size");
    return {input()[0], input()[1], size[0], size[1]};
  }

  struct Window {
    int64_t kernel, stride, padding, dilation;
    bool ceil_mode = false;

    int64_t count(int64_t size) const {
      require_option(kernel > 0, kernel, "kernel");
      require_option(stride > 0, stride, "stride");
      require_option(padding >= 0, padding, "padding");
      require_option(dilation > 0, dilation, "dilation");
      const int64_t reach = dilation * (kernel - 1) + 1, room = size + 2 * padding - reach;
      require(room + (ceil_mode ? stride - 1 : 0) >= 0,
              "is wider than its input, " + std::to_string(size));
      int64_t windows = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
      if (ceil_mode && (windows - 1) * stride >= size + padding) --windows;
      return windows;
    }
  };

  Shape convolved() const {
    const auto& all = options<Conv2dOptions>();
    require_dimensions(4);
    const int64_t channels = input()[1];
    require_option(all.groups > 0, all.groups, "groups");
    require(all.in_channels == channels && channels % all.groups == 0 &&
                all.out_channels % all.groups == 0 &&
                input(1) ==
                    Shape{all.out_channels, channels / all.groups, all.kernel[0], all.kernel[1]},
            "its options, weight " + shape_text(input(1)) + " and input " + shape_text(input()) +
                " do not fit");
    require_channels(all.out_channels, 2);
    Shape shape{input()[0], all.out_channels};
    for (size_t i = 0; i < 2; ++i)
      shape.push_back(Window{all.kernel[i], all.stride[i], all.padding[i], all.dilation[i]}.count(
          input()[i + 2]));
    return shape;
  }

  Shape pooled() const {
    const auto& all = options<Pool2dOptions>();
    require_dimensions(4);
    const bool dilated = operation_.kind == OperationKind::max_pool2d;
    Shape shape{input()[0], input()[1]};
    for (size_t i = 0; i < 2; ++i) {
      const int64_t dilation = dilated ? all.dilation[i] : 1;
      shape.push_back(
          Window{all.kernel[i], all.stride[i], all.padding[i], dilation, all.ceil_mode}.count(
              input()[i + 2]));
      const int64_t reach = dilation * (all.kernel[i] - 1) + 1;
      require(2 * all.padding[i] <= reach, "pads more than half of its window");
    }
    return shape;
  }

  Shape normalized() const {
    require(input().size() >= 2, "takes no input of shape " + shape_text(input()));
    if (operation_.kind == OperationKind::layer_norm) {
      const int64_t features = options<LayerNormOptions>().features;
      require(input().back() == features,
              "has " + std::to_string(features) + " features and input " + shape_text(input()));
      require_channels(features, 1);
      return input();
    }
    const int64_t channels = input()[1];
    require_channels(channels, 1);
    if (operation_.kind == OperationKind::group_norm) {
      const int64_t groups = options<GroupNormOptions>().groups;
      require_option(groups > 0 && channels % groups == 0, groups, "groups");
    }
    return input();
  }

  Shape together() const {
    auto shape = input();
    require(shape.size() >= 2, "takes no input of shape " + shape_text(shape));
    for (size_t i = 1; i < operation_.inputs.size(); ++i) {
      require(has(i) && input(i).size() == shape.size(), "its inputs do not fit");
      for (size_t d = 0; d < shape.size(); ++d)
        require(d == 1 || input(i)[d] == shape[d], "its inputs do not fit");
      shape[1] += input(i)[1];
    }
    return shape;
  }

  Shape expanded() const {
    const auto& wanted = options<ExpandOptions>().shape;
    const auto& given = input();
    require(wanted.size() >= given.size(), "cannot make " + shape_text(wanted) + " of its input");
    auto shape = wanted;
    const size_t more = wanted.size() - given.size();
    for (size_t i = 0; i < given.size(); ++i) {
      auto& size = shape[more + i];
      if (size == -1) size = given[i];
      require(given[i] == size || given[i] == 1,
              "cannot make " + shape_text(wanted) + " of " + shape_text(given));
    }
    return shape;
  }

  Shape multiplied() const {
    require(input().size() >= 2, "takes no input of shape " + shape_text(input()));
    require(
        input(1).size() == 2 && input(1)[1] == input().back(),
        "its weight " + shape_text(input(1)) + " and input " + shape_text(input()) + " do not fit");
    require_channels(input(1)[0], 2);
    auto shape = input();
    shape.back() = input(1)[0];
    return shape;
  }

  const Graph& graph_;
  const Graph::Operation& operation_;
};

}  // namespace

void check_graph(const Graph& graph) {
  KnownValues known(graph);
  for (const auto& value : graph.values) check_shape(value.shape);
  if (graph.values[graph.input].type != at::kFloat)
    throw std::invalid_argument("its input is not of type float");
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& operation = graph.operations[i];
    try {
      check_operation(graph, operation, known);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("operations[" + std::to_string(i) + "], " +
                                  std::string(name(operation.kind)) + " of '" + operation.layer +
                                  "': " + error.what());
    }
  }
  if (!known.has(graph.output)) throw std::invalid_argument("nothing makes its output");
  const auto& shape = graph.values[graph.output].shape;
  if (shape.size() != 2 || shape[0] != 1)
    throw std::invalid_argument("its output is not [N, classes]");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return c10::str(at::IntArrayRef(shape));
}

std::vector<int64_t> output_shape(const Graph& graph, const Graph::Operation& operation) {
  return Shapes(graph, operation).of_output();
}

}  // namespace composer
