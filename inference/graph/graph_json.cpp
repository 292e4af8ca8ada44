#include "inference/graph/graph_json.h"

#include <c10/core/ScalarType.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "inference/graph/graph_check.h"
#include "inference/graph/json_location.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

/// Calls member(key, value) for each member of an options struct, to write or to read it.
template <class Options>
void members(Options& options, const auto& member) {
  using Plain = std::remove_const_t<Options>;
  if constexpr (std::is_same_v<Plain, Conv2dOptions>) {
    member("in_channels", options.in_channels), member("out_channels", options.out_channels);
    member("kernel", options.kernel), member("stride", options.stride);
    member("padding", options.padding), member("dilation", options.dilation);
    member("groups", options.groups), member("bias", options.bias);
  } else if constexpr (std::is_same_v<Plain, Pool2dOptions>) {
    member("kernel", options.kernel), member("stride", options.stride);
    member("padding", options.padding), member("dilation", options.dilation);
    member("ceil_mode", options.ceil_mode);
  } else if constexpr (std::is_same_v<Plain, AdaptivePool2dOptions>) {
    member("size", options.size);
  } else if constexpr (std::is_same_v<Plain, BatchNormOptions>) {
    member("eps", options.eps), member("momentum", options.momentum);
    member("training", options.training);
  } else if constexpr (std::is_same_v<Plain, GroupNormOptions>) {
    member("groups", options.groups), member("eps", options.eps);
  } else if constexpr (std::is_same_v<Plain, LayerNormOptions>) {
    member("features", options.features), member("eps", options.eps);
  } else if constexpr (std::is_same_v<Plain, ScaleOptions>) {
    member("factor", options.factor);
  } else if constexpr (std::is_same_v<Plain, ExpandOptions>) {
    member("shape", options.shape);
  } else if constexpr (std::is_same_v<Plain, StandardizeOptions>) {
    member("eps", options.eps);
  } else {
    static_assert(std::is_same_v<Plain, std::monostate>);
  }
}

Json options_json(const OperationOptions& options) {
  Json json = Json::object();
  std::visit(
      [&](const auto& all) {
        members(all, [&](const char* key, const auto& value) { json[key] = value; });
      },
      options);
  return json;
}

template <class Options>
OperationOptions read_options(const Json& json) {
  Options options{};
  members(options, [&](const char* key, auto& value) { read_key(json, key, value); });
  return options;
}

/// Reads the options of an operation of the kind.
OperationOptions options_from(OperationKind kind, const Json& json) {
  switch (kind) {
    case OperationKind::adaptive_avg_pool2d:
      return read_options<AdaptivePool2dOptions>(json);
    case OperationKind::avg_pool2d:
    case OperationKind::max_pool2d:
      return read_options<Pool2dOptions>(json);
    case OperationKind::batch_norm:
      return read_options<BatchNormOptions>(json);
    case OperationKind::conv2d:
      return read_options<Conv2dOptions>(json);
    case OperationKind::expand:
      return read_options<ExpandOptions>(json);
    case OperationKind::group_norm:
      return read_options<GroupNormOptions>(json);
    case OperationKind::layer_norm:
      return read_options<LayerNormOptions>(json);
    case OperationKind::scale:
      return read_options<ScaleOptions>(json);
    case OperationKind::standardize_weight:
      return read_options<StandardizeOptions>(json);
    default:
      return read_options<std::monostate>(json);
  }
}

OperationKind kind_of(const std::string& word) {
  for (int i = 0; i <= static_cast<int>(OperationKind::unsqueeze); ++i)
    if (word == name(static_cast<OperationKind>(i))) return static_cast<OperationKind>(i);
  throw std::invalid_argument("no operation '" + word + "'");
}

at::ScalarType type_of(const std::string& word) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kByte, at::kChar})
    if (word == c10::toString(type)) return type;
  throw std::invalid_argument("no type '" + word + "'");
}

void check_constant(const std::string& name, const at::Tensor& tensor, const Graph::Value& value) {
  if (!tensor.defined()) throw std::invalid_argument("there is no tensor '" + name + "'");
  if (tensor.sizes() != at::IntArrayRef(value.shape) || tensor.scalar_type() != value.type)
    throw std::invalid_argument("tensor '" + name + "' is " + toString(tensor.scalar_type()) + " " +
                                c10::str(tensor.sizes()) + ", not " + toString(value.type) + " " +
                                c10::str(at::IntArrayRef(value.shape)));
}

}  // namespace

std::string constant_name(const Graph& graph, size_t value) {
  const auto& name = graph.values[value].name;
  return name.empty() ? "constant." + std::to_string(value) : name;
}

Json to_json(const Graph& graph) {
  Json values = Json::array(), operations = Json::array();
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    Json json{{"shape", value.shape}, {"type", c10::toString(value.type)}};
    if (value.constant.defined()) json["tensor"] = constant_name(graph, i);
    values.push_back(std::move(json));
  }
  for (const auto& operation : graph.operations) {
    Json inputs = Json::array();
    for (const auto& input : operation.inputs) inputs.push_back(input ? Json(*input) : Json());
    operations.push_back({{"kind", name(operation.kind)},
                          {"layer", operation.layer},
                          {"inputs", std::move(inputs)},
                          {"output", operation.output},
                          {"options", options_json(operation.options)}});
  }
  return {{"input", graph.input},
          {"output", graph.output},
          {"values", std::move(values)},
          {"operations", std::move(operations)}};
}

Graph graph_from(const Json& json,
                 const std::function<at::Tensor(const std::string& name)>& tensor_of) {
  Graph graph;
  read_entries(json, "values", [&](const Json& from) {
    Graph::Value value{.shape = read_key<std::vector<int64_t>>(from, "shape"),
                       .type = type_of(from.at("type").get<std::string>()),
                       .producer = {},
                       .constant = {},
                       .name = {}};
    if (from.contains("tensor")) {
      const auto name = from.at("tensor").get<std::string>();
      value.constant = tensor_of(name);
      check_constant(name, value.constant, value);
      if (!name.starts_with("constant.")) value.name = name;
    }
    graph.values.push_back(std::move(value));
  });
  read_entries(json, "operations", [&](const Json& from) {
    Graph::Operation operation{.kind = kind_of(from.at("kind").get<std::string>()),
                               .layer = from.at("layer").get<std::string>(),
                               .options = {},
                               .inputs = {},
                               .output = read_key<size_t>(from, "output")};
    operation.options = options_from(operation.kind, from.at("options"));
    read_entries(from, "inputs", [&](const Json& input) {
      if (!input.is_null()) check_whole(input, false);
      operation.inputs.push_back(input.is_null() ? std::nullopt
                                                 : std::optional(input.get<size_t>()));
    });
    graph.operations.push_back(std::move(operation));
  });
  read_key(json, "input", graph.input), read_key(json, "output", graph.output);
  check_graph(graph);
  for (size_t i = 0; i < graph.operations.size(); ++i)
    graph.values[graph.operations[i].output].producer = i;
  return graph;
}

}  // namespace composer
