#include "nn/network/metrics.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/text.h"
#include "nn/network/loss.h"

namespace composer {

ClassificationMetrics::ClassificationMetrics(int64_t num_classes) : num_classes_(num_classes) {
  reset();
}

void ClassificationMetrics::reset() { sums_ = at::zeros({4}, at::kDouble); }

void ClassificationMetrics::update(const at::Tensor& logits, const Target& target) {
  const at::NoGradGuard no_grad;
  const int64_t samples = logits.size(0);
  if (samples == 0) return;
  const auto classes = target.heavier();
  const auto hits = logits.argmax(1).eq(classes).sum();
  const auto hits_in_five = num_classes_ > 5
                                ? std::get<1>(logits.topk(5, 1, /*largest=*/true, /*sorted=*/false))
                                      .eq(classes.unsqueeze(1))
                                      .sum()
                                : hits;
  auto unsmoothed = target;
  unsmoothed.smoothing = 0;
  const auto cross_entropy = soft_cross_entropy(logits, unsmoothed).to(at::kDouble) * samples;
  if (sums_.device() != logits.device())
    sums_ = sums_.to(logits.device(), sums_.scalar_type(), /*non_blocking=*/true);
  sums_.add_(at::stack({at::full({}, samples, sums_.options()), hits.to(at::kDouble),
                        hits_in_five.to(at::kDouble), cross_entropy}));
}

void ClassificationMetrics::sum(const Ranks& ranks, at::Device device) {
  sums_ = sums_.to(device);
  ranks.sum(sums_);
}

std::vector<std::string> ClassificationMetrics::names(int64_t num_classes) {
  if (num_classes > 5) return {"Accuracy", "Top5Accuracy", "CrossEntropy"};
  return {"Accuracy", "CrossEntropy"};
}

std::vector<std::pair<std::string, double>> ClassificationMetrics::compute() const {
  const auto sums = sums_.cpu();
  const double* const value = sums.const_data_ptr<double>();
  std::vector<std::pair<std::string, double>> metrics{{"Accuracy", value[1] / value[0]}};
  if (num_classes_ > 5) metrics.emplace_back("Top5Accuracy", value[2] / value[0]);
  metrics.emplace_back("CrossEntropy", value[3] / value[0]);
  return metrics;
}

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
  seen_ = {ranks.gather_rows(own, ranks.gather(own.size(0)))};
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
  // scikit-learn's value for an output that is constant.
  const auto constant = variance <= 1e-12 * sums[4] / samples;
  const auto r2 = at::where(constant, at::where(mse > 0, 0.0, 1.0), 1 - mse / variance);
  return {{"MAE", (sums[1] / samples).mean().item<double>()},
          {"MSE", mse.mean().item<double>()},
          {"R2", r2.mean().item<double>()}};
}

std::string check_monitor(const std::string& monitor) {
  if (!evaluation_set(monitor).empty()) return "";
  return "monitor: must be a metric of the evaluation, for instance metrics/eval/Accuracy, not '" +
         monitor + "'\n";
}

void check_is_evaluated(const std::string& key, const std::string& metric,
                        const std::vector<std::string>& names,
                        const std::vector<std::string>& sets) {
  const std::string own(evaluation_set(metric));
  const std::vector any{own.empty() ? std::string(main_evaluation) : own};
  std::vector<std::string> metrics;
  for (const auto& set : sets.empty() ? any : sets)
    for (const auto& name : names) metrics.push_back("metrics/" + set + "/" + name);
  if (std::ranges::find(metrics, metric) == metrics.end())
    throw UserError(key + ": there is no " + metric + "; the evaluation gives " + joined(metrics));
}

void ConfusionMatrix::add(const at::Tensor& logits, const at::Tensor& classes) {
  const at::NoGradGuard no_grad;
  cell_indices_.push_back(classes * num_classes_ + logits.argmax(1));
}

at::Tensor ConfusionMatrix::all_cells() const {
  return cell_indices_.empty() ? at::zeros({0}, at::kLong) : at::cat(cell_indices_);
}

void ConfusionMatrix::sum(const Ranks& ranks, at::Device device) {
  if (ranks.alone()) return;
  const auto own = all_cells().to(device);
  cell_indices_ = {ranks.gather_rows(own, ranks.gather(own.numel()))};
}

at::Tensor ConfusionMatrix::cells() const {
  const auto [cells, inverse, samples] = at::_unique2(
      all_cells().cpu(), /*sorted=*/true, /*return_inverse=*/false, /*return_counts=*/true);
  return at::stack({cells.floor_divide(num_classes_), cells.remainder(num_classes_), samples}, 1);
}

at::Tensor ConfusionMatrix::counts() const {
  return at::bincount(all_cells().cpu(), {}, num_classes_ * num_classes_)
      .view({num_classes_, num_classes_});
}

bool BestMetric::take(std::string_view metric, double value) {
  if (metric_ != metric) metric_ = metric, value_.reset();
  if (std::isnan(value) || (value_ && !improves(metric, value, *value_))) return false;
  value_ = value;
  return true;
}

StateDict BestMetric::state_dict() const {
  if (!value_) return {};
  return {{}, {{"metric", metric_}, {"value", *value_}}};
}

void BestMetric::load_state_dict(const StateDict& state) {
  if (const auto* metric = state.find<std::string>("metric")) metric_ = *metric;
  if (const auto* value = state.find<double>("value")) value_ = *value;
}

RunningMetric::RunningMetric(at::Device device, Ranks ranks)
    : ranks_(std::move(ranks)),
      sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))) {}

void RunningMetric::add(const at::Tensor& sum, int64_t samples) {
  sums_[0].add_(sum);
  sums_[1].add_(static_cast<double>(samples));
}

at::Tensor RunningMetric::of_all() const {
  if (ranks_.alone()) return sums_;
  auto all = sums_.clone();
  ranks_.sum(all);
  return all;
}

at::Tensor RunningMetric::value() const {
  const auto sums = of_all();
  return sums[0] / sums[1];
}

void RunningMetric::load_state_dict(const StateDict& state) {
  if (ranks_.first()) sums_.copy_(state.tensor("hits"));
}

}  // namespace composer
