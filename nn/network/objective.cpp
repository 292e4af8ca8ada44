#include "nn/network/objective.h"

#include <ATen/core/Reduction.h>

#include "base/error.h"
#include "base/params/value.h"
#include "base/text.h"
#include "nn/device/device.h"

namespace composer {
namespace {

class Classification : public Objective {
 public:
  bool takes_values() const final { return false; }
  at::Tensor loss(const at::Tensor& outputs, const Target& target, Over over) const override {
    return soft_cross_entropy(outputs, target, over);
  }
  std::unique_ptr<EvaluationMetrics> metrics(int64_t outputs) const final {
    return std::make_unique<ClassificationMetrics>(outputs);
  }
  std::vector<std::string> metric_names(int64_t outputs) const final {
    return ClassificationMetrics::names(outputs);
  }
  std::string_view running_metric() const final { return "Accuracy"; }
  at::Tensor running_sum(const at::Tensor& outputs, const Target& target) const final {
    return outputs.argmax(1).eq(target.heavier()).sum();
  }
};

class WeightedClassification final : public Classification {
 public:
  explicit WeightedClassification(const std::vector<double>& weights)
      : weights_(at::tensor(weights, at::kFloat)) {}

  at::Tensor loss(const at::Tensor& outputs, const Target& target, Over over) const override {
    const auto scores = in_float32(outputs);
    if (weights_.device() != scores.device()) weights_ = copy_to(scores.device(), weights_);
    const auto loss_of = [&](const at::Tensor& classes) {
      return at::cross_entropy_loss(scores, classes, weights_.to(scores.scalar_type()),
                                    at::Reduction::None, -100, target.smoothing);
    };
    auto losses = loss_of(target.classes);
    if (target.other_classes.defined())
      losses = losses.lerp(loss_of(target.other_classes), target.other_weight.to(scores));
    return over == Over::batch ? losses.mean() : losses;
  }

 private:
  mutable at::Tensor weights_;  ///< float32 [C], on the device of the last outputs
};

/// Objectives of targets that are values.
class Values : public Objective {
 public:
  bool takes_values() const final { return true; }
  at::Tensor loss(const at::Tensor& outputs, const Target& target, Over over) const final {
    const auto scores = in_float32(outputs);
    const auto values = target.values.to(scores.scalar_type());
    return over == Over::batch ? loss_of(scores, values, at::Reduction::Mean)
                               : loss_of(scores, values, at::Reduction::None).mean(1);
  }

 private:
  virtual at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& values,
                             int64_t reduction) const = 0;
};

class Labels final : public Values {
 public:
  void check(const Target& target) const override {
    if (!target.values.defined() || target.values.numel() == 0) return;
    const auto [least, most] = target.values.aminmax();
    for (const double value : {least.item<double>(), most.item<double>()})
      if (!(value >= 0 && value <= 1))
        throw UserError("loss: binary_cross_entropy needs targets from 0 to 1, the data have " +
                        c10::str(value) + "; set loss: mse or l1 for numbers");
  }
  std::unique_ptr<EvaluationMetrics> metrics(int64_t) const override {
    return std::make_unique<LabelMetrics>();
  }
  std::vector<std::string> metric_names(int64_t) const override { return LabelMetrics::names(); }
  std::string_view running_metric() const override { return "Accuracy"; }
  at::Tensor running_sum(const at::Tensor& outputs, const Target& target) const override {
    return right_labels(outputs, target.values).to(at::kFloat).mean(1).sum();
  }
  at::Tensor answers(const at::Tensor& outputs) const override { return outputs.sigmoid(); }

 private:
  at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& values,
                     int64_t reduction) const override {
    return at::binary_cross_entropy_with_logits(outputs, values, {}, {}, reduction);
  }
};

class Regression final : public Values {
 public:
  explicit Regression(bool squared) : squared_(squared) {}

  std::unique_ptr<EvaluationMetrics> metrics(int64_t outputs) const override {
    return std::make_unique<RegressionMetrics>(outputs);
  }
  std::vector<std::string> metric_names(int64_t) const override {
    return RegressionMetrics::names();
  }
  std::string_view running_metric() const override { return "MAE"; }
  at::Tensor running_sum(const at::Tensor& outputs, const Target& target) const override {
    return (in_float32(outputs) - target.values).abs().mean(1).sum();
  }

 private:
  at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& values,
                     int64_t reduction) const override {
    return squared_ ? at::mse_loss(outputs, values, reduction)
                    : at::l1_loss(outputs, values, reduction);
  }

  bool squared_;
};

}  // namespace

const Objective& classification() {
  static const Classification objective;
  return objective;
}

std::vector<std::string> objective_names() {
  return {"cross_entropy", "binary_cross_entropy", "mse", "l1"};
}

std::shared_ptr<const Objective> make_objective(const std::string& loss,
                                                const std::vector<double>& class_weights,
                                                int64_t outputs) {
  if (!class_weights.empty()) {
    if (loss != "auto" && loss != "cross_entropy")
      throw UserError("class_weights: loss: " + loss + " knows no classes; give cross_entropy");
    if (std::ssize(class_weights) != outputs)
      throw UserError("class_weights: there are " + std::to_string(class_weights.size()) +
                      " weights, and " + std::to_string(outputs) + " classes in the model");
    return std::make_shared<WeightedClassification>(class_weights);
  }
  if (loss == "auto") return nullptr;
  if (loss == "cross_entropy") return std::make_shared<Classification>();
  if (loss == "binary_cross_entropy") return std::make_shared<Labels>();
  if (loss == "mse" || loss == "l1") return std::make_shared<Regression>(loss == "mse");
  throw UserError("loss: must be auto, " + joined(objective_names()) + ", not '" + loss + "'" +
                  suggestion(loss, objective_names()));
}

}  // namespace composer
