// The objective of training: the loss, and the metrics that judge the network.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/network/loss.h"
#include "nn/network/metrics.h"

namespace composer {

class Objective {
 public:
  virtual ~Objective() = default;

  /// Whether targets are Target::values; else they are classes.
  virtual bool takes_values() const = 0;
  /// outputs [N, K] of any floating type; target on the same device.
  virtual at::Tensor loss(const at::Tensor& outputs, const Target& target, Over over) const = 0;

  virtual std::unique_ptr<EvaluationMetrics> metrics(int64_t outputs) const = 0;
  /// The names that metrics(outputs) gives.
  virtual std::vector<std::string> metric_names(int64_t outputs) const = 0;

  /// The metric that is logged for training batches: its name, and its sum over the samples, a
  /// scalar on their device. Arguments as in loss().
  virtual std::string_view running_metric() const = 0;
  virtual at::Tensor running_sum(const at::Tensor& outputs, const Target& target) const = 0;

  /// The meaning of outputs: values as they are, or probabilities that labels hold.
  virtual at::Tensor answers(const at::Tensor& outputs) const { return outputs; }

  /// UserError if the target, on the CPU, has values that the loss does not allow.
  virtual void check(const Target&) const {}
};

/// Classification with soft_cross_entropy.
const Objective& classification();

/// The recipe's words for `loss`, except auto.
std::vector<std::string> objective_names();

/// cross_entropy: classification; class_weights (one per output, or none) multiply the loss of
///     their class's samples. The mean is over samples: torch.nn.CrossEntropyLoss divides by the
///     weights of the batch's samples instead, which depends on how a batch is split.
/// binary_cross_entropy: labels, each of which holds or not: the mean over samples and labels, as
///     torch.nn.BCEWithLogitsLoss.
/// mse, l1: numbers: the mean of squared or absolute differences, as torch.nn.MSELoss and L1Loss.
/// Null for "auto" without weights: the model's own loss, for classes. UserError for another word,
/// and for weights that fit neither the loss nor the outputs.
std::shared_ptr<const Objective> make_objective(const std::string& loss,
                                                const std::vector<double>& class_weights,
                                                int64_t outputs);

}  // namespace composer
