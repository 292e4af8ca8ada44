// quantization_aware: trains a network with inputs and weights rounded to the numbers that 8-bit
// codes represent (Jacob et al. 2018, "Quantization and training of neural networks for efficient
// integer-arithmetic-only inference", arXiv:1712.05877), so that `composer quantize` costs less
// accuracy.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/schedule.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// Whether the layers round; all layers of a model share it.
struct Rounding {
  int64_t bits = 8;  ///< bits of activations
  bool on = false;
};

/// `original`, a Conv2d or a Linear of any kind, that rounds its input and its weight in training
/// while rounding is on. The parameters stay the original's.
template <class Weighted>
class QuantizationAwareLayer : public Weighted {
 public:
  QuantizationAwareLayer(std::shared_ptr<Weighted> original,
                         std::shared_ptr<const Rounding> rounding)
      : Weighted(*original), original_(std::move(original)), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  void train(bool on = true) override;

 private:
  std::shared_ptr<Weighted> original_;
  std::shared_ptr<const Rounding> rounding_;
};

using QuantizationAwareConv2d = QuantizationAwareLayer<Conv2d>;
using QuantizationAwareLinear = QuantizationAwareLayer<Linear>;

/// A gated convolution; the convolution `aware` and the linear layers of the gates round.
class QuantizationAwareGates : public SqueezeExciteConv {
 public:
  QuantizationAwareGates(std::shared_ptr<Conv2d> aware, const SqueezeExciteConv& gates,
                         std::shared_ptr<const Rounding> rounding)
      : SqueezeExciteConv(std::move(aware), gates), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::shared_ptr<const Rounding> rounding_;
};

/// A RoundsWithin without parameters, `original`, that rounds: a pool with filters.
class QuantizationAwarePool : public Layer {
 public:
  QuantizationAwarePool(std::shared_ptr<Layer> original, std::shared_ptr<const Rounding> rounding)
      : original_(std::move(original)), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;

 private:
  std::shared_ptr<Layer> original_;
  std::shared_ptr<const Rounding> rounding_;
};

/// Runs last at init, to include the layers that surgery put into the model.
class QuantizationAware : public Surgery {
 public:
  struct Params {
    Time start{0.5, TimeUnit::duration};
    int64_t activation_bits = 8;

    void fields(auto&& f) {
      f("start", start, "when the network begins to compute with rounded numbers", at_least(0));
      f("activation_bits", activation_bits, "7 for processors without VNNI and AMX", in(7, 8));
    }
    std::string check() const { return check_start("start", start); }
  };

  static Compatibility compatibility();

  explicit QuantizationAware(const Params& params) : params_(params) {}

  Order order(Event) const override { return Order::last; }
  std::string prevents_graph_capture() const override;
  void init(State& state) override;
  void fit_start(State& state) override;
  void batch_start(State& state) override;

 private:
  Params params_;
  std::shared_ptr<Rounding> rounding_ = std::make_shared<Rounding>();
};

/// Replaces all convolutions, with their gates, all linear layers, and pools with filters. Throws
/// UserError if there is none.
std::vector<Replacement> apply_quantization_aware(Block& model,
                                                  const std::shared_ptr<const Rounding>& rounding);

}  // namespace composer
