#include "nn/network/graph.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <stdexcept>
#include <utility>

#include "nn/network/model.h"
#include "nn/network/recorder.h"

namespace composer {
namespace {

/// Every module in evaluation mode, until the end of the scope.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& model) {
    model.apply(
        [&](torch::nn::Module& module) { modes_.emplace_back(&module, module.is_training()); });
    model.eval();
  }
  ~Evaluating() {  // outer modules first: train() sets those within too
    for (const auto& [module, training] : modes_) module->train(training);
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

/// A copy, which the pass may overwrite, as the weights are.
at::Tensor as_weights(const torch::nn::Module& model, const at::Tensor& input) {
  auto options = input.options();
  for (const auto& parameter : model.parameters())
    if (parameter.is_floating_point()) {
      options = parameter.options();
      break;
    }
  return input.detach().to(options.requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

std::vector<size_t> Graph::readers(size_t value) const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < operations.size(); ++i)
    for (const auto& input : operations[i].inputs)
      if (input == value) {
        indices.push_back(i);
        break;
      }
  return indices;
}

std::optional<size_t> Graph::only_reader(size_t value) const {
  if (value == output) return {};
  const auto indices = readers(value);
  return indices.size() == 1 ? std::optional(indices[0]) : std::nullopt;
}

const at::Tensor& Graph::constant(const Operation& operation, size_t input) const {
  static const at::Tensor none;
  if (input >= operation.inputs.size() || !operation.inputs[input]) return none;
  return values[*operation.inputs[input]].constant;
}

at::Tensor compute(const Graph::Operation& operation, const std::vector<at::Tensor>& inputs) {
  static const at::Tensor none;
  const auto at = [&](size_t i) -> const at::Tensor& {
    return i < inputs.size() ? inputs[i] : none;
  };
  const auto& options = operation.options;
  switch (operation.kind) {
    case OperationKind::adaptive_avg_pool2d:
      return op::adaptive_avg_pool2d(at(0), std::get<AdaptivePool2dOptions>(options));
    case OperationKind::add:
      return op::add(at(0), at(1));
    case OperationKind::avg_pool2d:
      return op::avg_pool2d(at(0), std::get<Pool2dOptions>(options));
    case OperationKind::batch_norm:
      return op::batch_norm(at(0), at(1), at(2), at(3), at(4), std::get<BatchNormOptions>(options));
    case OperationKind::cat:
      return op::cat(inputs);
    case OperationKind::conv2d:
      return op::conv2d(at(0), at(1), at(2), std::get<Conv2dOptions>(options));
    case OperationKind::expand:
      return op::expand(at(0), std::get<ExpandOptions>(options));
    case OperationKind::flatten:
      return op::flatten(at(0));
    case OperationKind::gelu:
      return op::gelu(at(0));
    case OperationKind::group_norm:
      return op::group_norm(at(0), at(1), at(2), std::get<GroupNormOptions>(options));
    case OperationKind::hardsigmoid:
      return op::hardsigmoid(at(0));
    case OperationKind::hardswish:
      return op::hardswish(at(0));
    case OperationKind::layer_norm:
      return op::layer_norm(at(0), at(1), at(2), std::get<LayerNormOptions>(options));
    case OperationKind::linear:
      return op::linear(at(0), at(1), at(2));
    case OperationKind::max_pool2d:
      return op::max_pool2d(at(0), std::get<Pool2dOptions>(options));
    case OperationKind::mean:
      return op::mean(at(0));
    case OperationKind::multiply:
      return op::multiply(at(0), at(1));
    case OperationKind::relu:
      return op::relu(at(0));
    case OperationKind::scale:
      return op::scale(at(0), std::get<ScaleOptions>(options).factor);
    case OperationKind::sigmoid:
      return op::sigmoid(at(0));
    case OperationKind::silu:
      return op::silu(at(0));
    case OperationKind::standardize_weight:
      return op::standardize_weight(at(0), std::get<StandardizeOptions>(options));
    case OperationKind::to_nchw:
      return op::to_nchw(at(0));
    case OperationKind::to_nhwc:
      return op::to_nhwc(at(0));
    case OperationKind::unsqueeze:
      return op::unsqueeze(at(0));
  }
  throw std::logic_error("no such operation");
}

Graph record(Model& model, const at::Tensor& input) {
  const c10::InferenceMode no_inference(false);  // its tensors do not count what overwrites them
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Evaluating evaluating(model);
  const auto images = as_weights(model, input);
  Recorder recorder(model, images);
  return recorder.graph_to(model.forward(images));
}

}  // namespace composer
