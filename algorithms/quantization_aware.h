// quantization_aware: trains a network that shall compute with codes of 8 bits on the numbers that
// such codes have (Jacob et al. 2018, "Quantization and training of neural networks for efficient
// integer-arithmetic-only inference", arXiv:1712.05877), so that `composer quantize` costs less
// accuracy.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/parts/start_time.h"
#include "algorithms/parts/surgery.h"
#include "composer/network/layers.h"
#include "composer/network/surgery.h"
#include "composer/recipe/compatibility.h"
#include "composer/recipe/params.h"

namespace composer {

/// float32 or bfloat16 values -> the numbers of the nearest of `2^bits` codes between their
/// smallest and their largest, 0 among them. The gradient passes through unchanged.
at::Tensor rounded_activations(const at::Tensor& values, int64_t bits);

/// weight [out, ...] -> the numbers of its int8 codes, with a scale for each output. The gradient
/// passes through unchanged.
at::Tensor rounded_weight(const at::Tensor& weight);

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

/// The same of a Linear.
class QuantizationAwareLinear : public Linear {
 public:
  QuantizationAwareLinear(std::shared_ptr<Linear> original,
                          std::shared_ptr<const Rounding> rounding)
      : Linear(*original), original_(std::move(original)), rounding_(std::move(rounding)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;

 private:
  std::shared_ptr<Linear> original_;
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
  std::string against_replay() const override;
  void init(State& state) override;
  void fit_start(State& state) override;
  void batch_start(State& state) override;

 private:
  Params params_;
  std::shared_ptr<Rounding> rounding_ = std::make_shared<Rounding>();
};

/// Puts these layers in the place of all convolutions and linear layers; linear layers that another
/// method changed (dropout) are left alone. Throws UserError where there is none.
std::vector<Replacement> apply_quantization_aware(Block& model,
                                                  const std::shared_ptr<const Rounding>& rounding);

}  // namespace composer
