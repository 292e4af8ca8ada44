#include "algorithms/label_smoothing.h"

#include <sstream>

#include "base/error.h"
#include "composer/loop/state.h"

namespace composer {
namespace {

at::Tensor one_hot(const at::Tensor& logits, const at::Tensor& classes) {
  const auto index = classes.to(at::kLong).unsqueeze(1);
  return at::zeros(logits.sizes(), logits.options().dtype(at::kFloat).requires_grad(false))
      .scatter_(1, index.clamp_min(0), index.ge(0).to(at::kFloat));
}

}  // namespace

at::Tensor smooth_labels(const at::Tensor& logits, const at::Tensor& target, double smoothing) {
  const bool dense = target.sizes() == logits.sizes();
  if (!dense && target.dim() + 1 != logits.dim()) {
    std::ostringstream problem;
    problem << "smooth_labels: a target of shape " << target.sizes()
            << " does not fit logits of shape " << logits.sizes()
            << "; give class indices, one dimension fewer, or probabilities of that shape";
    throw UserError(problem.str());
  }
  const auto rows = dense ? target.to(at::kFloat) : one_hot(logits, target);
  return rows * (1 - smoothing) + smoothing / static_cast<double>(logits.size(1));
}

void LabelSmoothing::fit_start(State& state) {
  if (state.model->objective().takes_values())
    throw UserError(
        "algorithms.label_smoothing: is for classes, and the targets are values; leave it out");
}

void LabelSmoothing::before_loss(State& state) {
  double& smoothing = state.batch.target.smoothing;
  original_ = smoothing;
  smoothing = 1 - (1 - original_) * (1 - params_.smoothing);
}

void LabelSmoothing::after_loss(State& state) { state.batch.target.smoothing = original_; }

}  // namespace composer
