#include "analysis/metric_text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/figure_text.h"
#include "nn/network/metric_sense.h"

namespace composer {

std::string same_of_main(const std::string& metric) {
  return "metrics/" + std::string(main_evaluation) + metric.substr(metric.rfind('/'));
}

std::string metric_label(const std::string& metric) {
  static const std::map<std::string, std::string> labels{
      {"loss/train", "training loss"},
      {"metrics/eval/CrossEntropy", "evaluation loss"},
      {"metrics/train/Accuracy", "training accuracy"},
      {"metrics/eval/Accuracy", "evaluation accuracy"},
      {"metrics/eval/mAP", "evaluation mAP"},
      {"metrics/eval/BinaryCrossEntropy", "evaluation loss"},
      {"metrics/train/MAE", "training mean error"},
      {"metrics/eval/MAE", "evaluation mean error"},
      {"metrics/eval/MSE", "evaluation mean squared error"},
      {"metrics/eval/R2", "evaluation R2"},
      {"metrics/eval/Top5Accuracy", "evaluation accuracy, top 5"}};
  const std::string set(evaluation_set(metric));
  const bool further = !set.empty() && set != main_evaluation;
  const auto found = labels.find(further ? same_of_main(metric) : metric);
  if (found == labels.end()) return metric;
  return found->second + (further ? " on " + set : "");
}

int decimals_for(double size) {
  if (!std::isfinite(size) || size <= 0) return 3;
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(size))), 0, 6);
}

std::string metric_figure(const std::string& metric, double value, int decimals) {
  constexpr double too_many_digits = 1e7;
  if (!std::isfinite(value) || std::abs(value) >= too_many_digits) return figure(value);
  return is_share(metric) ? decimal_figure(value * 100, 2) + " %" : decimal_figure(value, decimals);
}

}  // namespace composer
