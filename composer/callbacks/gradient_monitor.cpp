#include "composer/callbacks/gradient_monitor.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <vector>

#include "composer/logging/logger.h"
#include "composer/network/model.h"
#include "composer/optimization/gradient_norm.h"
#include "composer/state.h"

namespace composer {

std::string parameter_group(const std::string& name, int64_t depth) {
  size_t end = std::min(name.rfind('.'), name.size()), at = 0;
  for (int64_t part = 0; part < depth; ++part) {
    const size_t dot = name.find('.', at);
    if (dot >= end) return name.substr(0, end);
    at = dot + 1;
  }
  return name.substr(0, at - 1);
}

void GradientMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  if (state.schedule.due(params_.interval, state.time, false)) log_norms(state, logger);
}

void GradientMonitor::epoch_end(const State& state, Logger& logger, RunControl&) {
  if (state.schedule.due(params_.interval, state.time, true)) log_norms(state, logger);
}

void GradientMonitor::log_norms(const State& state, Logger& logger) const {
  const at::NoGradGuard no_grad;
  std::map<std::string, std::vector<at::Tensor>> groups;
  for (const auto& item : state.model->named_parameters())
    if (item.value().grad().defined())
      groups[parameter_group(item.key(), params_.group_depth)].push_back(item.value().grad());
  std::vector<at::Tensor> norms;
  for (const auto& [name, gradients] : groups) {
    norms.push_back(global_norm(gradients));
    if (params_.log_layer_grad_norms) logger.log("layer_grad_l2_norm/" + name, norms.back());
  }
  if (!norms.empty()) logger.log("grad_l2_norm/step", at::stack(norms).norm());
}

}  // namespace composer
