// What the loop needs of a network.
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

/// A network from images to numbers, by default a classifier. Parameter names start at the model
/// itself: "conv1.weight".
class Model : public Block {
 public:
  /// Normalised images [N, C, H, W] -> logits [N, num_classes].
  at::Tensor forward(const at::Tensor& input) override = 0;

  /// Its own loss, between classes. Default: soft_cross_entropy.
  virtual at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch);

  /// What a recipe calls that loss.
  virtual std::string_view loss_name() const { return "soft_cross_entropy"; }

  /// How many outputs there are.
  virtual int64_t num_classes() const = 0;

  /// From now on its loss takes the place of loss(). Null: loss() counts.
  void set_objective(std::shared_ptr<const Objective> objective) {
    objective_ = std::move(objective);
  }
  /// As another's.
  void set_objective_of(const Model& other) { objective_ = other.objective_; }
  /// What it is trained for: classification() where nothing else was set.
  const Objective& objective() const { return objective_ ? *objective_ : classification(); }
  /// The names of the metrics that an evaluation gives.
  std::vector<std::string> metric_names() const { return objective().metric_names(num_classes()); }
  /// The loss that counts.
  at::Tensor loss_to_train(const at::Tensor& outputs, const Target& target, Over over) {
    return objective_ ? objective_->loss(outputs, target, over) : loss(outputs, target, over);
  }

  /// What messages call it from now on, "model.resnet"; the name of its class where nobody said.
  void set_title(std::string title) { title_ = std::move(title); }
  const std::string& title() const { return title_.empty() ? name() : title_; }

  /// How many pixels of the image lie, along an axis, between two places of the last feature map; 1
  /// where that is not known. Smaller images are warned of.
  virtual int64_t stride() const { return 1; }

  /// What "torchvision" or "timm" calls its tensors; nothing where that library has no such
  /// network.
  virtual std::optional<LibraryNames> names_in(const std::string& /*library*/) const {
    return std::nullopt;
  }

  /// Parameters whose names fit a pattern (base/name_pattern.h) get no gradient. Layers that
  /// are frozen whole keep their running statistics too: they stay in evaluation mode. Returns how
  /// many parameters there are now without gradient. UserError for a pattern that fits none.
  int64_t freeze(const std::vector<std::string>& patterns);
  void train(bool on = true) override;

 private:
  std::shared_ptr<const Objective> objective_;
  std::string title_;
  std::vector<torch::nn::Module*> frozen_;  ///< layers of this network with running statistics
};

}  // namespace composer
