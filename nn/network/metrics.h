// What a network is judged by, gathered over batches without waiting for the device.
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
  /// Takes in what the other ranks have seen. device: theirs.
  virtual void sum(const Ranks& ranks, at::Device device) = 0;
  /// Name and value; NaN where no sample was seen. Waits for the device.
  virtual std::vector<std::pair<std::string, double>> compute() const = 0;
};

/// Accuracy, Top5Accuracy (with more than 5 classes) and CrossEntropy, each the mean over all
/// samples seen, so that a short batch counts for what it holds. A mixed target counts as its
/// heavier class in the accuracies; label smoothing is left out of all of them.
class ClassificationMetrics final : public EvaluationMetrics {
 public:
  explicit ClassificationMetrics(int64_t num_classes);

  void update(const at::Tensor& logits, const Target& target) override;

  /// The names that compute() gives.
  static std::vector<std::string> names(int64_t num_classes);
  /// In the order above; accuracies in [0, 1].
  std::vector<std::pair<std::string, double>> compute() const override;
  void reset();
  void sum(const Ranks& ranks, at::Device device) override;

 private:
  int64_t num_classes_;
  /// float64 [4], on the device of the last update: samples, hits, hits among the first five,
  /// summed cross-entropy.
  at::Tensor sums_;
};

/// A problem's line about the field `monitor` where that is no metric of an evaluation at all
/// ("metrics/eval/Accuracy" is one, or another set's); else empty.
std::string check_monitor(const std::string& monitor);

/// UserError naming `key` where `metric` ("metrics/eval/Accuracy") is none of the names
/// ("Accuracy") that evaluations on `sets` ("eval") give. No sets: as if there were the one that
/// `metric` is of.
void check_is_evaluated(const std::string& key, const std::string& metric,
                        const std::vector<std::string>& names,
                        const std::vector<std::string>& sets = {});

/// How often samples of each class were taken for which, without waiting for the device. Takes 8
/// bytes a sample, however many classes there are.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes) : num_classes_(num_classes) {}

  /// logits [N, num_classes], classes int64 [N], on the same device.
  void add(const at::Tensor& logits, const at::Tensor& classes);
  /// Takes in what the other ranks have seen. device: theirs.
  void sum(const Ranks& ranks, at::Device device);
  /// What has samples, ascending: int64 [n, 3] of true class, taken for, samples; on the CPU. Waits
  /// for the device.
  at::Tensor cells() const;
  /// Everything: int64 [true class][taken for], on the CPU. Waits for the device.
  at::Tensor counts() const;

 private:
  at::Tensor all_places() const;

  int64_t num_classes_;
  /// Of each batch int64 [N]: the samples' places in the matrix, row by row.
  std::vector<at::Tensor> places_;
};

/// The best value of a metric so far; another metric begins anew.
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

/// A metric's mean over the training samples of all ranks, without waiting for the device. value()
/// and state_dict() are for all ranks to call.
class RunningMetric : public Stateful {
 public:
  explicit RunningMetric(at::Device device, Ranks ranks = {});

  /// A scalar on the device: the metric's sum over so many samples.
  void add(const at::Tensor& sum, int64_t samples);
  void reset() { sums_.zero_(); }
  /// A scalar on the device; NaN where no sample was seen.
  at::Tensor value() const;

  StateDict state_dict() const override { return {{{"hits", of_all()}}, {}}; }
  void load_state_dict(const StateDict& state) override;

 private:
  at::Tensor of_all() const;

  Ranks ranks_;
  at::Tensor sums_;  ///< float64 [2]: the metric's, samples
};

}  // namespace composer
