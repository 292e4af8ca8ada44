// no_op_model: trains a single number in place of the model, to measure how fast everything around
// a network is: loading, augmentation, the loop itself. No paper.
#pragma once

#include <string>
#include <vector>

#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/model.h"

namespace composer {

/// Says `weight`, its one parameter, a scalar, of every class of every image.
class ScalarModel : public Model {
 public:
  explicit ScalarModel(int64_t num_classes);

  at::Tensor forward(const at::Tensor& input) override;
  int64_t num_classes() const override { return num_classes_; }

  at::Tensor weight;

 private:
  int64_t num_classes_;
};

/// Runs last at init: other surgery finds the model it expects.
class NoOpModel : public Algorithm {
 public:
  /// What changes or freezes layers finds none.
  static Compatibility compatibility();

  Order order(Event) const override { return Order::last; }
  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  void init(State& state) override;
  std::vector<std::string> report() const override;
};

}  // namespace composer
