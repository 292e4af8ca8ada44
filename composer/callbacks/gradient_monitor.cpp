#include "composer/callbacks/gradient_monitor.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <vector>

#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/model.h"
#include "nn/optimization/gradient_norm.h"

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
  if (state.run_length.due(params_.interval, state.time, false)) log_norms(state, logger);
}

void GradientMonitor::epoch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(params_.interval, state.time, true)) log_norms(state, logger);
}

void GradientMonitor::log_norms(const State& state, Logger& logger) const {
  const at::NoGradGuard no_grad;
  // A gradient that is there on one rank alone counts on all.
  const auto ranks = state.gradient_ranks();
  std::map<std::string, std::vector<at::Tensor>> groups;
  for (const auto& item : state.model->named_parameters()) {
    const auto& gradient = item.value().grad();
    if (!gradient.defined() && (ranks.alone() || !item.value().requires_grad())) continue;
    auto& group = groups[parameter_group(item.key(), params_.group_depth)];
    if (gradient.defined()) group.push_back(gradient);
  }
  if (groups.empty()) return;
  const auto squares =
      at::zeros({2, std::ssize(groups)}, at::TensorOptions(state.device).dtype(at::kDouble));
  int64_t column = 0;
  for (const auto& [name, gradients] : groups) {
    if (!gradients.empty()) {
      squares[0][column].copy_(global_norm(gradients).to(at::kDouble).square());
      squares[1][column].fill_(1);
    }
    ++column;
  }
  ranks.sum(squares);
  const auto there = ranks.alone() ? at::Tensor() : squares[1].cpu();
  std::vector<at::Tensor> norms;
  column = 0;
  for (const auto& [name, gradients] : groups) {
    const int64_t group = column++;
    if (there.defined() && there[group].item<double>() == 0) continue;
    norms.push_back(squares[0][group].sqrt());
    if (params_.log_layer_grad_norms) logger.log("layer_grad_l2_norm/" + name, norms.back());
  }
  if (!norms.empty()) logger.log("grad_l2_norm/step", at::stack(norms).norm());
}

}  // namespace composer
