// no_op_model: trains a single number in place of the model, to measure how fast everything around
// a network is: loading, augmentation, the loop itself. No paper.
#pragma once

#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/model.h"

namespace composer {

/// Returns its only parameter, the scalar `weight`, as the logit of every class of every image.
class ScalarModel : public Model {
 public:
  explicit ScalarModel(int64_t num_classes);

  at::Tensor forward(const at::Tensor& input) override;
  int64_t num_classes() const override { return num_classes_; }

  at::Tensor weight;

 private:
  int64_t num_classes_;
};

/// Runs last at init, so that other surgery finds the model that it expects.
class NoOpModel : public UnrestrictedAlgorithm {
 public:
  /// Excludes algorithms that change or freeze layers.
  static Compatibility compatibility();

  Order order(Event) const override { return Order::last; }
  void init(State& state) override;
  std::vector<std::string> report() const override;
};

}  // namespace composer
