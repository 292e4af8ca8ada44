#include "composer/network/graph.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "composer/network/model.h"
#include "composer/network/recorder.h"

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
