// What an ONNX file computes, node by node as the operators are defined.
#pragma once

#include <ATen/ATen.h>

#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "onnx_reader.h"

namespace composer::test {

/// Numbers per channel, which stand in dimension `axis` of so many.
inline at::Tensor along(const at::Tensor& numbers, int64_t axis, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  if (numbers.dim() > 0) shape[static_cast<size_t>(axis)] = numbers.size(0);
  return numbers.view(shape);
}

inline at::Tensor padded(const at::Tensor& x, const std::vector<int64_t>& pads, double by) {
  return at::constant_pad_nd(x, {pads[1], pads[3], pads[0], pads[2]}, by);
}

inline at::Tensor conv_of(const OnnxNode& node, const std::vector<at::Tensor>& x) {
  const auto get = [&](const char* key) { return node.integers.at(key); };
  if (get("kernel_shape") != x[1].sizes().slice(2).vec())
    throw std::invalid_argument("a kernel of another shape");
  return at::conv2d(padded(x[0], get("pads"), 0), x[1], x.size() > 2 ? x[2] : at::Tensor(),
                    get("strides"), at::IntArrayRef{0, 0}, get("dilations"), get("group")[0]);
}

inline at::Tensor reshaped(const at::Tensor& x, const at::Tensor& to) {
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < to.numel(); ++i) {
    const auto size = to[i].item<int64_t>();
    shape.push_back(size == 0 ? x.size(i) : size);
  }
  return x.reshape(shape);
}

inline at::Tensor quantized(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero) {
  return ((x / scale).round() + zero.to(at::kFloat)).clamp(0, 255).to(at::kByte);
}

inline at::Tensor dequantized(const OnnxNode& node, const std::vector<at::Tensor>& x) {
  const auto found = node.integers.find("axis");
  const int64_t axis = found == node.integers.end() ? 1 : found->second[0];
  if (x[2].scalar_type() != x[0].scalar_type()) throw std::invalid_argument("types differ");
  const auto codes = x[0].to(at::kInt) - along(x[2].to(at::kInt), axis, x[0].dim());
  return codes.to(at::kFloat) * along(x[1], axis, x[0].dim());
}

/// The part of Resize that the files use.
inline at::Tensor resized_of(const OnnxNode& node, const std::vector<at::Tensor>& x) {
  const auto get = [&](const char* key) { return node.integers.at(key); };
  const bool bicubic = node.reals.contains("cubic_coeff_a");
  if ((bicubic && node.reals.at("cubic_coeff_a") != -0.5F) ||
      node.texts.at("mode") != (bicubic ? "cubic" : "linear") || get("antialias")[0] != 1 ||
      get("exclude_outside")[0] != 1 || get("axes") != std::vector<int64_t>{1, 2} ||
      x[1].defined() || x[2].defined())
    throw std::invalid_argument("another Resize");
  const std::vector<int64_t> size{x[3][0].item<int64_t>(), x[3][1].item<int64_t>()};
  const auto planes = x[0].permute({0, 3, 1, 2});
  return (bicubic ? at::_upsample_bicubic2d_aa(planes, size, false)
                  : at::_upsample_bilinear2d_aa(planes, size, false))
      .permute({0, 2, 3, 1})
      .contiguous();
}

inline at::Tensor sliced(at::Tensor x, const at::Tensor& begin, const at::Tensor& end,
                         const at::Tensor& axes) {
  for (int64_t i = 0; i < axes.numel(); ++i)
    x = x.slice(axes[i].item<int64_t>(), begin[i].item<int64_t>(), end[i].item<int64_t>());
  return x;
}

inline at::Tensor onnx_output(const OnnxNode& node, const std::vector<at::Tensor>& x) {
  const auto get = [&](const char* key) { return node.integers.at(key); };
  const auto& kind = node.kind;
  if (kind == "Abs") return x[0].abs();
  if (kind == "Add") return x[0] + x[1];
  if (kind == "AveragePool") {
    if (get("count_include_pad")[0] != 1) throw std::invalid_argument("count_include_pad");
    return at::avg_pool2d(padded(x[0], get("pads"), 0), get("kernel_shape"), get("strides"));
  }
  if (kind == "BatchNormalization")
    return at::batch_norm(x[0], x[1], x[2], x[3], x[4], false, 0, node.reals.at("epsilon"), false);
  if (kind == "Cast" && get("to")[0] == 1) return x[0].to(at::kFloat);
  if (kind == "Clip") return x[0].clamp(x[1].item<float>(), x[2].item<float>());
  if (kind == "Concat") return at::cat(x, get("axis")[0]);
  if (kind == "Conv") return conv_of(node, x);
  if (kind == "DequantizeLinear") return dequantized(node, x);
  if (kind == "Div") return x[0].is_floating_point() ? x[0] / x[1] : at::div(x[0], x[1], "trunc");
  if (kind == "Erf") return at::erf(x[0]);
  if (kind == "Flatten") return x[0].flatten(get("axis")[0]);
  if (kind == "Floor") return x[0].floor();
  if (kind == "Gather") return x[0].index_select(0, x[1].view({-1})).view(x[1].sizes());
  if (kind == "Gemm" && get("transB")[0] == 1)
    return at::linear(x[0], x[1], x.size() > 2 ? x[2] : at::Tensor());
  if (kind == "GlobalAveragePool") return x[0].mean(at::IntArrayRef{2, 3}, /*keepdim=*/true);
  if (kind == "HardSigmoid")
    return (x[0] * node.reals.at("alpha") + node.reals.at("beta")).clamp(0, 1);
  if (kind == "HardSwish") return at::hardswish(x[0]);
  if (kind == "InstanceNormalization")
    return at::instance_norm(x[0], x[1], x[2], {}, {}, true, 0, node.reals.at("epsilon"), false);
  if (kind == "LayerNormalization" && get("axis")[0] == -1)
    return at::layer_norm(x[0], {x[0].size(-1)}, x[1], x.size() > 2 ? x[2] : at::Tensor(),
                          node.reals.at("epsilon"));
  if (kind == "MatMul") return at::matmul(x[0], x[1]);
  if (kind == "MaxPool")
    return at::max_pool2d(padded(x[0], get("pads"), -std::numeric_limits<double>::infinity()),
                          get("kernel_shape"), get("strides"), at::IntArrayRef{0, 0},
                          get("dilations"));
  if (kind == "Mod") return at::fmod(x[0], x[1]);
  if (kind == "Mul") return x[0] * x[1];
  if (kind == "QuantizeLinear") return quantized(x[0], x[1], x[2]);
  if (kind == "Range")
    return at::arange(x[0].item<float>(), x[1].item<float>(), x[2].item<float>(), at::kFloat);
  if (kind == "ReduceMean" && get("keepdims")[0] == 0) return x[0].mean(get("axes"));
  if (kind == "ReduceMin") return x[0].min().view({1});
  if (kind == "ReduceSum") return x[0].sum(x[1].item<int64_t>(), /*keepdim=*/true);
  if (kind == "Relu") return at::relu(x[0]);
  if (kind == "Resize") return resized_of(node, x);
  if (kind == "Shape")
    return at::tensor(x[0].sizes().slice(static_cast<size_t>(get("start")[0]),
                                         static_cast<size_t>(get("end")[0] - get("start")[0])),
                      at::kLong);
  if (kind == "Slice") return sliced(x[0], x[1], x[2], x[3]);
  if (kind == "Softmax") return x[0].softmax(get("axis")[0]);
  if (kind == "Reshape") return reshaped(x[0], x[1]);
  if (kind == "Sigmoid") return at::sigmoid(x[0]);
  if (kind == "Tanh") return at::tanh(x[0]);
  if (kind == "Sub") return x[0] - x[1];
  if (kind == "Transpose") return x[0].permute(get("perm"));
  if (kind == "Unsqueeze" && at::equal(x[1], at::tensor({2, 3}, at::kLong)))
    return x[0].unsqueeze(2).unsqueeze(3);
  throw std::invalid_argument("no operator " + kind);
}

/// Throws where a node reads what no node before it made, or two make the same.
inline at::Tensor interpreted(const OnnxModel& model, const at::Tensor& images, size_t output = 0) {
  auto values = model.initializers;
  values[model.inputs.at(0).name] = images;
  values[""] = at::Tensor();
  for (const auto& node : model.nodes) {
    std::vector<at::Tensor> inputs;
    for (const auto& name : node.inputs) inputs.push_back(values.at(name));
    if (!values.emplace(node.outputs.at(0), onnx_output(node, inputs)).second)
      throw std::invalid_argument(node.outputs[0] + " is made twice");
  }
  return values.at(model.outputs.at(output).name);
}

}  // namespace composer::test
