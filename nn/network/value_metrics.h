// What networks are judged by whose targets are values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/network/metrics.h"

namespace composer {

/// bool [N, K]: where an output says on the right side of one half whether its label holds. outputs
/// are logits.
at::Tensor right_labels(const at::Tensor& outputs, const at::Tensor& values);

/// The area under precision over recall of one label, each step as high as its precision
/// (sklearn.metrics.average_precision_score): scores and holds (0 or 1) are [N], on the CPU. NaN
/// where the label never holds.
double average_precision(const at::Tensor& scores, const at::Tensor& holds);

/// Of labels that hold or not: mAP, the mean of average_precision over the labels that ever hold;
/// Accuracy, the share of right_labels; BinaryCrossEntropy, the mean over samples and labels. Keeps
/// 8 bytes a sample and label.
class LabelMetrics final : public EvaluationMetrics {
 public:
  static std::vector<std::string> names() { return {"mAP", "Accuracy", "BinaryCrossEntropy"}; }

  void update(const at::Tensor& outputs, const Target& target) override;
  std::vector<std::pair<std::string, double>> compute() const override;
  void sum(const Ranks& ranks, at::Device device) override;

 private:
  std::vector<at::Tensor> seen_;  ///< float32 [N, 2, K]: outputs and values
};

/// Of numbers: MAE and MSE, the means of absolute and squared differences over samples and outputs,
/// and R2, the mean over outputs of 1 - MSE / variance (sklearn.metrics.r2_score); NaN for an
/// output whose values are all the same.
class RegressionMetrics final : public EvaluationMetrics {
 public:
  explicit RegressionMetrics(int64_t outputs);

  static std::vector<std::string> names() { return {"MAE", "MSE", "R2"}; }

  void update(const at::Tensor& outputs, const Target& target) override;
  std::vector<std::pair<std::string, double>> compute() const override;
  void sum(const Ranks& ranks, at::Device device) override;

 private:
  /// float64 [5, K]: samples, and sums of absolute and squared differences, values, their squares.
  at::Tensor sums_;
};

}  // namespace composer
