#include "inference/torchscript.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/text.h"
#include "inference/description.h"
#include "inference/fold.h"

namespace composer {
namespace {

std::string number(double value) {
  std::ostringstream text;
  text.precision(17);
  text << std::scientific << value;
  return text.str();
}

std::string list(const auto& numbers) {
  std::vector<std::string> words;
  for (const int64_t value : numbers) words.push_back(std::to_string(value));
  return "[" + joined(words, ", ") + "]";
}

/// The TorchScript call of the operation. x: the names of its inputs, "None" where absent.
std::string call_of(const Graph::Operation& operation, std::vector<std::string> x) {
  const auto all = joined(x, ", ");
  x.resize(std::max<size_t>(x.size(), 5), "None");
  const auto pool = [&](const Pool2dOptions& o) {
    return x[0] + ", " + list(o.kernel) + ", " + list(o.stride) + ", " + list(o.padding);
  };
  const auto& options = operation.options;
  switch (operation.kind) {
    case OperationKind::add:
    case OperationKind::gelu:
    case OperationKind::hardsigmoid:
    case OperationKind::hardswish:
    case OperationKind::relu:
    case OperationKind::sigmoid:
    case OperationKind::silu:
      return "torch." + std::string(name(operation.kind)) + "(" + all + ")";
    case OperationKind::adaptive_avg_pool2d:
      return "torch.adaptive_avg_pool2d(" + all + ", " +
             list(std::get<AdaptivePool2dOptions>(options).size) + ")";
    case OperationKind::avg_pool2d: {
      const auto& o = std::get<Pool2dOptions>(options);
      return "torch.avg_pool2d(" + pool(o) + ", " + (o.ceil_mode ? "True" : "False") + ")";
    }
    case OperationKind::batch_norm:
      return "torch.batch_norm(" + joined({x.begin(), x.begin() + 5}, ", ") + ", False, 0.0, " +
             number(std::get<BatchNormOptions>(options).eps) + ", False)";
    case OperationKind::cat:
      return "torch.cat([" + all + "], 1)";
    case OperationKind::conv2d: {
      const auto& o = std::get<Conv2dOptions>(options);
      return "torch.conv2d(" + joined({x.begin(), x.begin() + 3}, ", ") + ", " + list(o.stride) +
             ", " + list(o.padding) + ", " + list(o.dilation) + ", " + std::to_string(o.groups) +
             ")";
    }
    case OperationKind::flatten:
      return "torch.flatten(" + all + ", 1)";
    case OperationKind::group_norm: {
      const auto& o = std::get<GroupNormOptions>(options);
      return "torch.group_norm(" + x[0] + ", " + std::to_string(o.groups) + ", " + x[1] + ", " +
             x[2] + ", " + number(o.eps) + ", False)";
    }
    case OperationKind::layer_norm: {
      const auto& o = std::get<LayerNormOptions>(options);
      return "torch.layer_norm(" + x[0] + ", [" + std::to_string(o.features) + "], " + x[1] + ", " +
             x[2] + ", " + number(o.eps) + ", False)";
    }
    case OperationKind::linear:
      return "torch.linear(" + joined({x.begin(), x.begin() + 3}, ", ") + ")";
    case OperationKind::max_pool2d: {
      const auto& o = std::get<Pool2dOptions>(options);
      return "torch.max_pool2d(" + pool(o) + ", " + list(o.dilation) + ", " +
             (o.ceil_mode ? "True" : "False") + ")";
    }
    case OperationKind::mean:
      return "torch.mean(" + all + ", [2, 3])";
    case OperationKind::multiply:
      return "torch.mul(" + all + ")";
    case OperationKind::scale:
      return "torch.mul(" + all + ", " + number(std::get<ScaleOptions>(options).factor) + ")";
    case OperationKind::to_nchw:
      return "torch.permute(" + all + ", [0, 3, 1, 2])";
    case OperationKind::to_nhwc:
      return "torch.permute(" + all + ", [0, 2, 3, 1])";
    case OperationKind::unsqueeze:
      return "torch.unsqueeze(torch.unsqueeze(" + all + ", 2), 3)";
    case OperationKind::expand:
    case OperationKind::standardize_weight:
      break;  // only those of weights are supported, which folding has computed
  }
  throw UserError("export: layer '" + operation.layer + "': " + std::string(name(operation.kind)) +
                  " of what depends on the input has no TorchScript form");
}

/// Statements that resize "planes", float32 [N, C, H, W], along the width and crop it, then along
/// the height. As Pillow they round to bytes after each pass.
std::string resizing_of(const TrainedNetwork& network) {
  const auto& size = network.preparation.size;
  const auto length = std::to_string(network.preparation.resize_size);
  const std::string kind = network.resize_filter == "bicubic" ? "bicubic" : "bilinear";
  std::string text =
      "  shorter = min(images.size(1), images.size(2))\n"
      "  height = images.size(1) * " +
      length +
      " // shorter\n"
      "  width = images.size(2) * " +
      length + " // shorter\n";
  // Half of what is left over, halves to the even neighbour.
  const auto pass = [&](const std::string& side, const std::string& sizes,
                        const std::string& dimension, int64_t wanted) {
    const auto crop = std::to_string(wanted);
    text += "  planes = torch._upsample_" + kind + "2d_aa(planes, " + sizes + ", False)\n";
    text += "  left = " + side + " - " + crop + "\n";
    text += "  start = left // 2 + left % 2 * (left // 2 % 2)\n";
    text += "  planes = torch.slice(planes, " + dimension + ", start, start + " + crop + ")\n";
    text += "  planes = torch.clamp(torch.floor(planes + 0.5), 0, 255)\n";
  };
  pass("width", "[planes.size(2), width]", "3", size.width);
  pass("height", "[height, planes.size(3)]", "2", size.height);
  return text;
}

/// Statements that make `input`, float32 [N, C, H, W], normalised, of "images"; they refuse images
/// of another type or size.
std::string preparation_of(const TrainedNetwork& network, Preprocessing preprocessing,
                           const std::string& input) {
  const bool resizes = preprocessing == Preprocessing::resize;
  const auto& [channels, resize_size, size, normalization] = network.preparation;
  const auto c = std::to_string(channels), height = std::to_string(size.height),
             width = std::to_string(size.width);
  std::string right = "images.dtype == 0 and images.dim() == 4 and images.size(3) == " + c;
  if (!resizes) right += " and images.size(1) == " + height + " and images.size(2) == " + width;
  const auto shape = resizes ? "N, H, W, " + c : "N, " + height + ", " + width + ", " + c;
  return "  assert " + right + ", 'images are uint8 [" + shape + "]'\n" +
         "  planes = torch.permute(images, [0, 3, 1, 2]).float()\n" +
         (resizes ? resizing_of(network) : "") + "  " + input +
         " = (planes - self.mean) / self.std\n";
}

std::string source_of(const TrainedNetwork& network, const Graph& graph,
                      Preprocessing preprocessing) {
  const auto name = [&](size_t value) {
    return (graph.values[value].constant.defined() ? "self.c" : "v") + std::to_string(value);
  };
  const auto input = name(graph.input);
  const bool prepares = preprocessing != Preprocessing::none;
  std::string text =
      "def forward(self, " + (prepares ? "images" : input) + ": Tensor) -> Tensor:\n";
  if (prepares) text += preparation_of(network, preprocessing, input);
  for (const auto& operation : graph.operations) {
    std::vector<std::string> inputs;
    for (const auto& input : operation.inputs) inputs.push_back(input ? name(*input) : "None");
    text += "  " + name(operation.output) + " = " + call_of(operation, std::move(inputs)) + "\n";
  }
  return text + "  return " + name(graph.output) + "\n";
}

}  // namespace

void write_torchscript(const std::string& path, const TrainedNetwork& network,
                       Preprocessing preprocessing) {
  if (!network.quantization.empty())
    throw UserError(path + ": a quantized network has no TorchScript form; export it as onnx");
  if (preprocessing == Preprocessing::resize) check_resizes(network);
  const auto graph = folded(network.graph);
  torch::jit::Module module("ComposerNetwork");
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (const auto& constant = graph.values[i].constant; constant.defined())
      module.register_buffer("c" + std::to_string(i), constant.contiguous());
  const auto& [mean, std] = network.preparation.normalization;
  for (const auto& [constant, values] : {std::pair("mean", &mean), std::pair("std", &std)})
    if (preprocessing != Preprocessing::none)
      module.register_buffer(constant, at::tensor(*values, at::kFloat).view({-1, 1, 1}));
  module.define(source_of(network, graph, preprocessing));
  module.register_attribute("training", c10::BoolType::get(), false);
  std::ostringstream bytes;
  module.save(bytes, {{"network.json", description_text(description_of(network))}});
  AtomicFile file(path);
  file.write(std::string_view(bytes.view()));
  file.commit_to_disk();
}

}  // namespace composer
