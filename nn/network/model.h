// A network as the training loop sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/network/batch.h"
#include "nn/network/layer.h"
#include "nn/network/library_names.h"
#include "nn/network/loss.h"
#include "nn/network/objective.h"

namespace composer {

/// A network from normalised images [N, C, H, W] to numbers, by default logits [N, num_classes] of
/// a classifier. Parameter names start at the model itself: "conv1.weight".
class Model : public Block {
 public:
  /// The model's own loss, for classes. Default: soft_cross_entropy.
  virtual at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch);

  /// The recipe's name of that loss.
  virtual std::string_view loss_name() const { return "soft_cross_entropy"; }

  /// The number of outputs.
  virtual int64_t num_classes() const = 0;

  /// The objective's loss replaces loss(). Null: loss() is used.
  void set_objective(std::shared_ptr<const Objective> objective) {
    objective_ = std::move(objective);
  }
  /// Takes over another model's objective.
  void set_objective_of(const Model& other) { objective_ = other.objective_; }
  /// The objective; classification() where none was set.
  const Objective& objective() const { return objective_ ? *objective_ : classification(); }
  /// The names of an evaluation's metrics.
  std::vector<std::string> metric_names() const { return objective().metric_names(num_classes()); }
  /// The loss that training uses.
  at::Tensor loss_to_train(const at::Tensor& outputs, const Target& target, Over over) {
    return objective_ ? objective_->loss(outputs, target, over) : loss(outputs, target, over);
  }

  /// The model's name in messages, "model.resnet"; by default the name of its class.
  void set_title(std::string title) { title_ = std::move(title); }
  const std::string& title() const { return title_.empty() ? name() : title_; }

  /// Pixels of the image, along an axis, between neighbouring elements of the last feature map; 1
  /// where unknown. Smaller images get a warning.
  virtual int64_t stride() const { return 1; }

  /// The names of its tensors in "torchvision" or "timm"; nothing where that library has no such
  /// network.
  virtual std::optional<LibraryNames> names_in(const std::string& /*library*/) const {
    return std::nullopt;
  }

  /// Parameters whose names fit a pattern (base/name_pattern.h) get no gradient. Layers that are
  /// frozen whole keep their running statistics too: they stay in evaluation mode. Returns the
  /// number of parameters without gradient. UserError for a pattern that fits no parameter.
  int64_t freeze(const std::vector<std::string>& patterns);
  void train(bool on = true) override;

 private:
  std::shared_ptr<const Objective> objective_;
  std::string title_;
  std::vector<torch::nn::Module*> frozen_;  ///< frozen layers with running statistics
};

}  // namespace composer
