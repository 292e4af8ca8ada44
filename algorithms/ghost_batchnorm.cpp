#include "algorithms/ghost_batchnorm.h"

#include "base/log.h"
#include "composer/loop/state.h"

namespace composer {

int64_t ghost_batches(int64_t samples, int64_t ghost_batch_size) {
  const int64_t wanted = (samples + ghost_batch_size - 1) / ghost_batch_size;
  return std::max<int64_t>(std::min(wanted, samples / 2), 1);
}

at::Tensor GhostBatchNorm2d::forward(const at::Tensor& input, const at::Tensor& residual,
                                     Activation activation) {
  const int64_t pieces = ghost_batches(input.size(0), ghost_batch_size_);
  if (!is_training() || pieces == 1) return BatchNorm2d::forward(input, residual, activation);
  const double momentum = take_up_batch() / static_cast<double>(pieces);
  const auto inputs = input.tensor_split(pieces);
  const auto residuals =
      residual.defined() ? residual.tensor_split(pieces) : std::vector<at::Tensor>(inputs.size());
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    outputs.push_back(normalized(inputs[i], residuals[i], activation, momentum));
  return at::cat(outputs);
}

std::string GhostBatchNorm2d::describe() const {
  return "GhostBatchNorm2d(" + std::to_string(channels_) + ", " +
         std::to_string(ghost_batch_size_) + " samples)";
}

std::vector<Replacement> apply_ghost_batchnorm(Block& model, int64_t ghost_batch_size) {
  return replace_batch_norms<GhostBatchNorm2d>(model, "ghost_batchnorm", ghost_batch_size);
}

void GhostBatchNorm::init(State& state) {
  replacements_ = apply_ghost_batchnorm(*state.model, params_.ghost_batch_size);
  log_count(state, "ghost_batchnorm/num_new_layers", "ghost_batchnorm: replaced", "layers");
}

void GhostBatchNorm::fit_start(State& state) {
  const int64_t passes = state.grad_accum * state.ranks.size();
  const int64_t samples = (state.run_length.batch_size + passes - 1) / passes;
  if (ghost_batches(samples, params_.ghost_batch_size) == 1)
    log::warn(
        "algorithms.ghost_batchnorm.ghost_batch_size: " + std::to_string(params_.ghost_batch_size) +
        " has no effect: the network gets no more samples than " + std::to_string(samples) +
        " at once");
}

}  // namespace composer
