#include "nn/network/value_metrics.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "nn/network/share.h"

namespace composer {

at::Tensor right_labels(const at::Tensor& outputs, const at::Tensor& values) {
  return outputs.gt(0).eq(values.gt(0.5));
}

double average_precision(const at::Tensor& scores, const at::Tensor& holds) {
  const auto [sorted, order] = scores.sort(/*dim=*/0, /*descending=*/true);
  const auto ordered = holds.index_select(0, order).to(at::kDouble).contiguous();
  const auto ranked = sorted.to(at::kDouble).contiguous();
  const double* const score = ranked.const_data_ptr<double>();
  const double* const hold = ordered.const_data_ptr<double>();
  double found = 0, before = 0, area = 0;
  for (int64_t i = 0; i < ranked.numel(); ++i) {
    found += hold[i];
    const bool last_of_equals = i + 1 == ranked.numel() || score[i + 1] != score[i];
    if (!last_of_equals) continue;
    area += (found - before) * found / static_cast<double>(i + 1);
    before = found;
  }
  return found > 0 ? area / found : NAN;
}

void LabelMetrics::update(const at::Tensor& outputs, const Target& target) {
  const at::NoGradGuard no_grad;
  if (outputs.size(0) == 0) return;
  seen_.push_back(at::stack({outputs.to(at::kFloat), target.values.to(at::kFloat)}, 1));
}

void LabelMetrics::sum(const Ranks& ranks, at::Device device) {
  if (ranks.alone()) return;
  const auto own_outputs = seen_.empty() ? int64_t{0} : seen_[0].size(2);
  const int64_t outputs = std::ranges::max(ranks.gather(own_outputs));
  if (outputs == 0) return;
  const auto own = seen_.empty() ? at::zeros({0, 2, outputs}, at::TensorOptions().device(device))
                                 : at::cat(seen_).to(device);
  seen_ = {rows_of_all(own, ranks.gather(own.size(0)), ranks)};
}

std::vector<std::pair<std::string, double>> LabelMetrics::compute() const {
  if (seen_.empty()) return {{"mAP", NAN}, {"Accuracy", NAN}, {"BinaryCrossEntropy", NAN}};
  const auto all = at::cat(seen_).cpu();
  const auto outputs = all.select(1, 0).contiguous(), values = all.select(1, 1).contiguous();
  const auto holds = values.gt(0.5);
  double sum = 0, labels = 0;
  for (int64_t k = 0; k < outputs.size(1); ++k) {
    const double precision = average_precision(outputs.select(1, k), holds.select(1, k));
    if (std::isnan(precision)) continue;
    sum += precision;
    ++labels;
  }
  const auto loss = at::binary_cross_entropy_with_logits(
      outputs.to(at::kDouble), values.to(at::kDouble), {}, {}, at::Reduction::Mean);
  return {{"mAP", sum / labels},
          {"Accuracy", right_labels(outputs, values).to(at::kDouble).mean().item<double>()},
          {"BinaryCrossEntropy", loss.item<double>()}};
}

RegressionMetrics::RegressionMetrics(int64_t outputs)
    : sums_(at::zeros({5, outputs}, at::kDouble)) {}

void RegressionMetrics::update(const at::Tensor& outputs, const Target& target) {
  const at::NoGradGuard no_grad;
  const int64_t samples = outputs.size(0);
  if (samples == 0) return;
  const auto values = target.values.to(at::kDouble), off = outputs.to(at::kDouble) - values;
  if (sums_.device() != outputs.device()) sums_ = sums_.to(outputs.device(), at::kDouble, true);
  sums_.add_(at::stack({at::full({outputs.size(1)}, samples, sums_.options()), off.abs().sum(0),
                        off.square().sum(0), values.sum(0), values.square().sum(0)}));
}

void RegressionMetrics::sum(const Ranks& ranks, at::Device device) {
  sums_ = sums_.to(device);
  ranks.sum(sums_);
}

std::vector<std::pair<std::string, double>> RegressionMetrics::compute() const {
  const auto sums = sums_.cpu();
  const auto samples = sums[0], mse = sums[2] / samples, mean = sums[3] / samples;
  const auto variance = sums[4] / samples - mean.square();
  // Of an output that is always the same, as scikit-learn has it.
  const auto constant = variance <= 1e-12 * sums[4] / samples;
  const auto r2 = at::where(constant, at::where(mse > 0, 0.0, 1.0), 1 - mse / variance);
  return {{"MAE", (sums[1] / samples).mean().item<double>()},
          {"MSE", mse.mean().item<double>()},
          {"R2", r2.mean().item<double>()}};
}

}  // namespace composer
