// What a network is trained for: the loss, and the metrics that tell how well it does.
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

  /// Whether it is about Target::values; else about classes.
  virtual bool takes_values() const = 0;
  /// outputs [N, K] of any floating type; target on the same device.
  virtual at::Tensor loss(const at::Tensor& outputs, const Target& target, Over over) const = 0;

  virtual std::unique_ptr<EvaluationMetrics> metrics(int64_t outputs) const = 0;
  /// The names that metrics(outputs) gives.
  virtual std::vector<std::string> metric_names(int64_t outputs) const = 0;

  /// What is logged of training batches: its name, and the sum over the samples, a scalar on their
  /// device, [N, K] and target as above.
  virtual std::string_view running_metric() const = 0;
  virtual at::Tensor running_sum(const at::Tensor& outputs, const Target& target) const = 0;

  /// What an output means: its value as it stands, or the probability that a label holds.
  virtual at::Tensor answers(const at::Tensor& outputs) const { return outputs; }

  /// Throws UserError where the target, which is on the CPU, has values that the loss is not for.
  virtual void check(const Target&) const {}
};

/// Telling classes apart, by soft_cross_entropy.
const Objective& classification();

/// The words that a recipe's `loss` has for them, beside auto.
std::vector<std::string> objective_names();

/// cross_entropy: classification, where class_weights (one for each output, or none) multiply the
///   loss of their class's samples. The mean is over samples: torch.nn.CrossEntropyLoss divides by
///   the weights of the batch's samples, which depends on how a batch is split.
/// binary_cross_entropy: labels, each of which holds or not: the mean over samples and labels, as
///   torch.nn.BCEWithLogitsLoss.
/// mse, l1: numbers: the mean of squared or absolute differences, as torch.nn.MSELoss and L1Loss.
/// Null for "auto" without weights: the model's own loss, between classes. Throws UserError for
/// another word, and for weights that fit neither the loss nor the outputs.
std::shared_ptr<const Objective> make_objective(const std::string& loss,
                                                const std::vector<double>& class_weights,
                                                int64_t outputs);

}  // namespace composer
