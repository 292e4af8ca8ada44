#include "nn/network/graph.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "nn/network/model.h"
#include "nn/network/recorder.h"

namespace composer {
namespace {

/// Puts every module into evaluation mode for a scope.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& model) {
    model.apply(
        [&](torch::nn::Module& module) { modes_.emplace_back(&module, module.is_training()); });
    model.eval();
  }
  ~Evaluating() {  // outer modules first: train() also sets the modules within
    for (const auto& [module, training] : modes_) module->train(training);
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

/// A copy of the input, which the pass may overwrite, in the weights' type and on their device.
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
    if (std::ranges::count(operations[i].inputs, std::optional(value)) > 0) indices.push_back(i);
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

Graph record(Model& model, const at::Tensor& input) {
  const c10::InferenceMode no_inference(false);  // inference tensors do not count their versions
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Evaluating evaluating(model);
  const auto images = as_weights(model, input);
  Recorder recorder(model, images);
  return recorder.graph_to(model.forward(images));
}

}  // namespace composer
