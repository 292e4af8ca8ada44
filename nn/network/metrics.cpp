#include "nn/network/metrics.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "nn/network/loss.h"
#include "nn/network/share.h"

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

std::vector<std::pair<std::string, double>> ClassificationMetrics::compute() const {
  const auto sums = sums_.cpu();
  const double* const value = sums.const_data_ptr<double>();
  std::vector<std::pair<std::string, double>> metrics{{"Accuracy", value[1] / value[0]}};
  if (num_classes_ > 5) metrics.emplace_back("Top5Accuracy", value[2] / value[0]);
  metrics.emplace_back("CrossEntropy", value[3] / value[0]);
  return metrics;
}

void ConfusionMatrix::add(const at::Tensor& logits, const at::Tensor& classes) {
  const at::NoGradGuard no_grad;
  places_.push_back(classes * num_classes_ + logits.argmax(1));
}

at::Tensor ConfusionMatrix::all_places() const {
  return places_.empty() ? at::zeros({0}, at::kLong) : at::cat(places_);
}

void ConfusionMatrix::sum(const Ranks& ranks, at::Device device) {
  if (ranks.alone()) return;
  const auto own = all_places().to(device);
  places_ = {rows_of_all(own, ranks.gather(own.numel()), ranks)};
}

at::Tensor ConfusionMatrix::cells() const {
  const auto [places, inverse, samples] = at::_unique2(
      all_places().cpu(), /*sorted=*/true, /*return_inverse=*/false, /*return_counts=*/true);
  return at::stack({places.floor_divide(num_classes_), places.remainder(num_classes_), samples}, 1);
}

at::Tensor ConfusionMatrix::counts() const {
  return at::bincount(all_places().cpu(), {}, num_classes_ * num_classes_)
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
