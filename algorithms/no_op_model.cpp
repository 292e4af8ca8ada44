#include "algorithms/no_op_model.h"

#include "composer/loop/state.h"
#include "nn/network/operations.h"

namespace composer {

ScalarModel::ScalarModel(int64_t num_classes) : num_classes_(num_classes) {
  weight = register_parameter("weight", at::full({}, 1.5));
}

at::Tensor ScalarModel::forward(const at::Tensor& input) {
  return op::expand(weight, {.shape = {input.size(0), num_classes_}});
}

Compatibility NoOpModel::compatibility() {
  Compatibility compatibility;
  for (const char* other : {"blurpool", "dirac_init", "factorize", "ghost_batchnorm",
                            "layer_freezing", "low_precision_norm", "squeeze_excite",
                            "stochastic_depth", "sync_batchnorm", "weight_standardization"})
    compatibility.excludes.push_back({other, "the one number has no layers for it to work on"});
  return compatibility;
}

void NoOpModel::init(State& state) {
  auto model = std::make_shared<ScalarModel>(state.model->num_classes());
  model->set_objective_of(*state.model);
  state.model = std::move(model);
}

std::vector<std::string> NoOpModel::report() const { return {"the whole model -> one number"}; }

}  // namespace composer
