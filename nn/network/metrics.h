// Metrics of a network, accumulated over batches without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/network/batch.h"
#include "nn/network/metric_sense.h"
#include "nn/state_dict.h"
#include "nn/stateful.h"

namespace composer {

class EvaluationMetrics {
 public:
  virtual ~EvaluationMetrics() = default;

  /// outputs [N, K] of any floating type; target on the same device. Does not wait for the device.
  virtual void update(const at::Tensor& outputs, const Target& target) = 0;
  /// Adds the samples of the other ranks. device: of all ranks.
  virtual void sum(const Ranks& ranks, at::Device device) = 0;
  /// Name and value; NaN where no sample was seen. Waits for the device.
  virtual std::vector<std::pair<std::string, double>> compute() const = 0;
};

/// Accuracy, Top5Accuracy (with more than 5 classes) and CrossEntropy, each the mean over all
/// samples, so that a short batch counts by its size. In accuracies a mixed target counts as its
/// heavier class; label smoothing is left out of all metrics.
class ClassificationMetrics final : public EvaluationMetrics {
 public:
  explicit ClassificationMetrics(int64_t num_classes);

  void update(const at::Tensor& logits, const Target& target) override;

  /// The names that compute() gives.
  static std::vector<std::string> names(int64_t num_classes);
  /// The metrics in the order of names(); accuracies are in [0, 1].
  std::vector<std::pair<std::string, double>> compute() const override;
  void reset();
  void sum(const Ranks& ranks, at::Device device) override;

 private:
  int64_t num_classes_;
  /// float64 [4], on the device of the last update: samples, hits, hits among the first five,
  /// summed cross-entropy.
  at::Tensor sums_;
};

/// bool [N, K]: whether the output, a logit, is on the right side of one half for its label.
at::Tensor right_labels(const at::Tensor& outputs, const at::Tensor& values);

/// The area under precision over recall of one label, each step as high as its precision
/// (sklearn.metrics.average_precision_score). scores, holds (0 or 1): [N] on the CPU. NaN where the
/// label never holds.
double average_precision(const at::Tensor& scores, const at::Tensor& holds);

/// Metrics of labels: mAP, the mean of average_precision over the labels that ever hold; Accuracy,
/// the fraction of right_labels; BinaryCrossEntropy, the mean over samples and labels. Keeps 8
/// bytes per sample and label.
class LabelMetrics final : public EvaluationMetrics {
 public:
  static std::vector<std::string> names() { return {"mAP", "Accuracy", "BinaryCrossEntropy"}; }

  void update(const at::Tensor& outputs, const Target& target) override;
  std::vector<std::pair<std::string, double>> compute() const override;
  void sum(const Ranks& ranks, at::Device device) override;

 private:
  std::vector<at::Tensor> seen_;  ///< float32 [N, 2, K]: outputs and values
};

/// Metrics of numbers: MAE and MSE, the means of absolute and squared differences over samples and
/// outputs, and R2, the mean over outputs of 1 - MSE / variance (sklearn.metrics.r2_score). An
/// output whose values are all equal has R2 1 without errors, else 0.
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

/// The problem with the field `monitor` where it is no metric of an evaluation
/// ("metrics/eval/Accuracy" is one); else empty.
std::string check_monitor(const std::string& monitor);

/// UserError naming `key` unless `metric` ("metrics/eval/Accuracy") is one of the names
/// ("Accuracy") that evaluations on `sets` ("eval") give. Without sets: as if the metric's own set
/// existed.
void check_is_evaluated(const std::string& key, const std::string& metric,
                        const std::vector<std::string>& names,
                        const std::vector<std::string>& sets = {});

/// How often samples of each class were predicted as each class, without waiting for the device.
/// Keeps 8 bytes per sample, whatever the number of classes.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes) : num_classes_(num_classes) {}

  /// logits [N, num_classes], classes int64 [N], on the same device.
  void add(const at::Tensor& logits, const at::Tensor& classes);
  /// Adds the samples of the other ranks. device: of all ranks.
  void sum(const Ranks& ranks, at::Device device);
  /// The cells with samples, ascending: int64 [n, 3] of true class, predicted class, samples; on
  /// the CPU. Waits for the device.
  at::Tensor cells() const;
  /// All cells: int64 [true class][predicted class], on the CPU. Waits for the device.
  at::Tensor counts() const;

 private:
  at::Tensor all_cells() const;

  int64_t num_classes_;
  /// int64 [N] for each batch: the samples' cell indices in the matrix, row by row.
  std::vector<at::Tensor> cell_indices_;
};

/// The best value of a metric so far; a different metric starts anew.
class BestMetric : public Stateful {
 public:
  /// Whether `value` is a new best of the metric.
  bool take(std::string_view metric, double value);

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  std::string metric_;
  std::optional<double> value_;
};

/// A metric's mean over the training samples of all ranks, without waiting for the device. All
/// ranks call value() and state_dict().
class RunningMetric : public Stateful {
 public:
  explicit RunningMetric(at::Device device, Ranks ranks = {});

  /// A scalar on the device: the metric's sum over this many samples.
  void add(const at::Tensor& sum, int64_t samples);
  void reset() { sums_.zero_(); }
  /// A scalar on the device; NaN where no sample was seen.
  at::Tensor value() const;

  StateDict state_dict() const override { return {{{"hits", of_all()}}, {}}; }
  void load_state_dict(const StateDict& state) override;

 private:
  at::Tensor of_all() const;

  Ranks ranks_;
  at::Tensor sums_;  ///< float64 [2]: sum of the metric, samples
};

}  // namespace composer
