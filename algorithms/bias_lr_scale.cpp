#include "algorithms/bias_lr_scale.h"

#include "base/error.h"
#include "base/log.h"
#include "composer/loop/state.h"
#include "nn/network/layers.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

bool normalises(const torch::nn::Module& module) {
  if (dynamic_cast<const BatchNorm2d*>(&module)) return true;
  const auto parameters = module.named_parameters(/*recurse=*/false);
  const auto* weight = parameters.find("weight");
  return weight != nullptr && weight->dim() == 1;
}

}  // namespace

std::vector<std::string> bias_names(const torch::nn::Module& model, bool norm_only) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& path, const torch::nn::Module& module) {
    if (!module.named_parameters(/*recurse=*/false).contains("bias")) return;
    if (!norm_only || normalises(module)) names.push_back(path.empty() ? "bias" : path + ".bias");
  };
  add("", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    add(item.key(), *item.value());
  return names;
}

Compatibility BiasLrScale::compatibility() {
  return {.excludes = {{"no_op_model", "its model has no biases"}}, .needs = {}};
}

void BiasLrScale::fit_start(State& state) {
  const bool norm_only = params_.biases == "norm";
  const auto names = bias_names(*state.model, norm_only);
  if (names.empty())
    throw UserError(norm_only ? "algorithms.bias_lr_scale: the model has no normalisation layer "
                                "with a bias; set biases: all, or remove it"
                              : "algorithms.bias_lr_scale: the model has no bias; remove it");
  std::map<std::string, double> factors;
  for (const auto& name : names) factors[name] = params_.scale;
  state.optimizer->scale_lr(factors);
  log::info("bias_lr_scale: " + std::to_string(names.size()) +
            (norm_only ? " biases of normalisation layers" : " biases") + " train with " +
            write_value(params_.scale).text + " times the learning rate");
}

}  // namespace composer
