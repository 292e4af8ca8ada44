// The direction of metrics, by their names.
#pragma once

#include <cmath>
#include <string_view>

namespace composer {

/// The name of val_dataset among the evaluation sets.
inline constexpr std::string_view main_evaluation = "eval";

/// The set of an evaluation metric: "eval" of "metrics/eval/Accuracy". Empty for all other metrics.
inline std::string_view evaluation_set(std::string_view metric) {
  constexpr std::string_view beginning = "metrics/";
  if (!metric.starts_with(beginning)) return {};
  metric.remove_prefix(beginning.size());
  const auto end = metric.find('/');
  if (end == std::string_view::npos || end + 1 == metric.size()) return {};
  const auto set = metric.substr(0, end);
  return set == "train" ? std::string_view() : set;
}

/// Whether the smaller of two values of the metric ("metrics/eval/CrossEntropy", "loss/train") is
/// the better one.
inline bool smaller_is_better(std::string_view metric) {
  return metric.starts_with("loss") || metric.find("Entropy") != std::string_view::npos ||
         metric.ends_with("/MAE") || metric.ends_with("/MSE");
}

/// Whether the metric is a fraction, in [0, 1].
inline bool is_share(std::string_view metric) {
  return metric.ends_with("Accuracy") || metric.ends_with("/mAP");
}

/// Whether `value` of the metric is better than `best` by more than min_delta. NaN never is;
/// anything else is better than NaN.
inline bool improves(std::string_view metric, double value, double best, double min_delta = 0) {
  if (std::isnan(best)) return !std::isnan(value);
  return smaller_is_better(metric) ? value < best - min_delta : value > best + min_delta;
}

}  // namespace composer
