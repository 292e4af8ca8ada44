// quantization_aware: trains a network that shall compute with codes of 8 bits on the numbers that
// such codes have (Jacob et al. 2018, "Quantization and training of neural networks for efficient
// integer-arithmetic-only inference", arXiv:1712.05877), so that `composer quantize` costs less
// accuracy.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/rounding.h"
#include "algorithms/parts/start_time.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// Whether the layers round, which all of a model share.
struct Rounding {
  int64_t bits = 8;  ///< of activations
  bool on = false;
};

/// `original`, a Conv2d of any kind, that rounds its input and its weight in training while it is
/// on. The parameters stay the original's.
class QuantizationAwareConv2d : public Conv2d {
 public:
  QuantizationAwareConv2d(std::shared_ptr<Conv2d> original,
                          std::shared_ptr<const Rounding> rounding)
      : Conv2d(*original), original_(std::move(original)), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;

 private:
  std::shared_ptr<Conv2d> original_;
  std::shared_ptr<const Rounding> rounding_;
};

/// The same of a Linear of any kind.
class QuantizationAwareLinear : public Linear {
 public:
  QuantizationAwareLinear(std::shared_ptr<Linear> original,
                          std::shared_ptr<const Rounding> rounding)
      : Linear(*original), original_(std::move(original)), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  void train(bool on = true) override;

 private:
  std::shared_ptr<Linear> original_;
  std::shared_ptr<const Rounding> rounding_;
};

/// Gates whose linear layers round as well as the convolution `aware`.
class QuantizationAwareGates : public SqueezeExciteConv {
 public:
  QuantizationAwareGates(std::shared_ptr<Conv2d> aware, const SqueezeExciteConv& gates,
                         std::shared_ptr<const Rounding> rounding)
      : SqueezeExciteConv(std::move(aware), gates), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::shared_ptr<const Rounding> rounding_;
};

/// `original`, a layer that RoundsWithin and has no parameters: a pool with filters.
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

/// Runs last at init, so that it sees the layers that surgery put in place.
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

/// Puts these layers in the place of all convolutions and linear layers, with their gates, and of
/// pools with filters. Throws UserError where there is none.
std::vector<Replacement> apply_quantization_aware(Block& model,
                                                  const std::shared_ptr<const Rounding>& rounding);

}  // namespace composer
