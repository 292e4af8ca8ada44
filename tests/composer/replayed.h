// A network's picture computed operation by operation, by LibTorch's functions alone.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "nn/network/graph.h"

namespace composer::test {

inline at::Tensor computed(const Graph::Operation& operation, const std::vector<at::Tensor>& x) {
  const auto input = [&](size_t i) {
    return i < x.size() && x[i].defined() ? std::optional(x[i]) : std::nullopt;
  };
  switch (operation.kind) {
    case OperationKind::adaptive_avg_pool2d:
      return at::adaptive_avg_pool2d(x[0], std::get<AdaptivePool2dOptions>(operation.options).size);
    case OperationKind::add:
      return x[0] + x[1];
    case OperationKind::avg_pool2d: {
      const auto& o = std::get<Pool2dOptions>(operation.options);
      return at::avg_pool2d(x[0], o.kernel, o.stride, o.padding, o.ceil_mode);
    }
    case OperationKind::batch_norm: {
      const auto& o = std::get<BatchNormOptions>(operation.options);
      CHECK_FALSE(o.training);
      return at::batch_norm(x[0], input(1), input(2), input(3), input(4), false, o.momentum, o.eps,
                            true);
    }
    case OperationKind::cat:
      return at::cat(x, 1);
    case OperationKind::conv2d: {
      const auto& o = std::get<Conv2dOptions>(operation.options);
      CHECK(x[0].size(1) == o.in_channels);
      CHECK(x[1].sizes() ==
            at::IntArrayRef{o.out_channels, o.in_channels / o.groups, o.kernel[0], o.kernel[1]});
      CHECK(o.bias == (x.size() == 3));
      return at::conv2d(x[0], x[1], input(2), o.stride, o.padding, o.dilation, o.groups);
    }
    case OperationKind::expand:
      return x[0].expand(std::get<ExpandOptions>(operation.options).shape);
    case OperationKind::flatten:
      return x[0].flatten(1);
    case OperationKind::gelu:
      return at::gelu(x[0]);
    case OperationKind::group_norm: {
      const auto& o = std::get<GroupNormOptions>(operation.options);
      return at::group_norm(x[0], o.groups, input(1), input(2), o.eps);
    }
    case OperationKind::hardsigmoid:
      return at::hardsigmoid(x[0]);
    case OperationKind::hardswish:
      return at::hardswish(x[0]);
    case OperationKind::layer_norm: {
      const auto& o = std::get<LayerNormOptions>(operation.options);
      return at::layer_norm(x[0], {o.features}, input(1), input(2), o.eps);
    }
    case OperationKind::linear:
      return at::linear(x[0], x[1], input(2));
    case OperationKind::max_pool2d: {
      const auto& o = std::get<Pool2dOptions>(operation.options);
      return at::max_pool2d(x[0], o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
    }
    case OperationKind::mean:
      return x[0].mean({2, 3});
    case OperationKind::multiply:
      return x[0] * x[1];
    case OperationKind::relu:
      return x[0].relu();
    case OperationKind::scale:
      return x[0] * std::get<ScaleOptions>(operation.options).factor;
    case OperationKind::sigmoid:
      return x[0].sigmoid();
    case OperationKind::silu:
      return at::silu(x[0]);
    case OperationKind::standardize_weight: {
      const auto rows = x[0].flatten(1);
      const auto eps = std::get<StandardizeOptions>(operation.options).eps;
      const auto deviation = (rows.var(1, false, true) + eps).sqrt();
      return ((rows - rows.mean(1, true)) / deviation).view_as(x[0]);
    }
    case OperationKind::to_nchw:
      return x[0].permute({0, 3, 1, 2});
    case OperationKind::to_nhwc:
      return x[0].permute({0, 2, 3, 1});
    case OperationKind::unsqueeze:
      return x[0].unsqueeze(2).unsqueeze(3);
  }
  throw std::logic_error("no such operation");
}

/// What the graph's output is for another input of the same shape.
inline at::Tensor replayed(const Graph& graph, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const auto& value : graph.values) values.push_back(value.constant);
  values[graph.input] = input;
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& operation = graph.operations[i];
    INFO(operation.layer << " " << name(operation.kind));
    std::vector<at::Tensor> inputs;
    for (const auto& index : operation.inputs) {
      inputs.push_back(index ? values.at(*index) : at::Tensor());
      if (index) REQUIRE(inputs.back().defined());
    }
    const auto& value = graph.values.at(operation.output);
    CHECK(value.producer == i);
    CHECK_FALSE(values[operation.output].defined());
    const auto output = computed(operation, inputs);
    CHECK(output.sizes() == at::IntArrayRef(value.shape));
    CHECK(output.scalar_type() == value.type);
    values[operation.output] = output;
  }
  return values.at(graph.output);
}

/// How many operations there are of each kind.
inline std::map<std::string, int> kinds(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const auto& operation : graph.operations) ++counts[std::string(name(operation.kind))];
  return counts;
}

/// "conv2d layer1.0.conv1: layer1.0.conv1.weight": kind, layer, and the constants that it reads.
inline std::vector<std::string> lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& operation : graph.operations) {
    auto line = std::string(name(operation.kind)) + " " + operation.layer;
    for (const auto& index : operation.inputs)
      if (index && graph.values[*index].constant.defined())
        line += " " + (graph.values[*index].name.empty() ? "?" : graph.values[*index].name);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace composer::test
