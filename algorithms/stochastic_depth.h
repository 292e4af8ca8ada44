// stochastic_depth: leaves out residual branches at random while training, so that the network is
// shallower on average and every block learns to do without the others (Huang et al. 2016, "Deep
// networks with stochastic depth", arXiv:1603.09382).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/layer.h"
#include "nn/network/surgery.h"

namespace composer {

/// The inputs of the draws of all blocks of a network. It must not outlive the State.
struct DepthDraws {
  const State* state;  ///< its seed, time.batch and first_sample determine the draws
  Time warmup{0, TimeUnit::duration};  ///< time in which the rates grow to their values
};

/// A residual block that drops its residual branch. It has the layers and parameter names of the
/// block that it replaces. With p the block's rate times StochasticDepth::ramp:
///   training: relu(shortcut(x)) with probability p (x itself where the shortcut is the identity,
///     as x comes from a ReLU), else relu(residual(x) + shortcut(x)); one draw for the batch, or
///     one for each sample;
///   evaluation, and training without DepthDraws: relu((1 - p) * residual(x) + shortcut(x)).
/// With scale_by_keep, training divides a kept residual(x) by 1 - p, and evaluation does not scale
/// it. relu stands for the block's activation(). Without DepthDraws p is the full rate.
class StochasticBlock : public ResidualBlock {
 public:
  enum class Draw { block, sample };

  /// index: index of the block in the network, so that no two blocks share draws.
  StochasticBlock(std::shared_ptr<ResidualBlock> original, Draw draw, double rate, int64_t index,
                  std::weak_ptr<const DepthDraws> draws, bool scale_by_keep = false);

  at::Tensor forward(const at::Tensor& input) override;
  at::Tensor branch(const at::Tensor& input) override { return original_->branch(input); }
  Slot& last() override { return original_->last(); }
  at::Tensor shortcut(const at::Tensor& input) override { return original_->shortcut(input); }
  Activation activation() const override { return original_->activation(); }
  at::Tensor residual(const at::Tensor& input) override { return original_->residual(input); }
  void train(bool on = true) override;
  std::string describe() const override;
  bool by_rows() const override { return original_->by_rows(); }

 private:
  void hand_on_replaced_layers();
  at::Tensor without_residual(const at::Tensor& input);
  at::Tensor joined(at::Tensor branch, const at::Tensor& input);

  std::shared_ptr<ResidualBlock> original_;
  Draw draw_;
  double rate_;
  int64_t index_;
  std::weak_ptr<const DepthDraws> draws_;
  bool scale_by_keep_;
};

/// The defaults are MosaicML Composer's. The drop path of timm and torchvision is
/// stochastic_method: sample, scale_by_keep: true, and drop_distribution: linear_from_zero (ResNet,
/// ConvNeXt) or linear_below (EfficientNet). Its blocks draw until it is destroyed; destroy it
/// before the State that init() got.
class StochasticDepth : public Surgery {
 public:
  struct Params {
    std::string stochastic_method = "block";
    double drop_rate = 0.2;
    std::string drop_distribution = "linear";
    bool scale_by_keep = false;
    Time drop_warmup{0, TimeUnit::duration};
    std::string target_layer_name{};
    std::optional<bool> use_same_gpu_seed = std::nullopt;

    void fields(auto&& f) {
      f("stochastic_method", stochastic_method,
        "block: a whole batch goes without the branch, which saves its arithmetic; sample: each "
        "sample by itself",
        one_of("block", "sample"));
      f("drop_rate", drop_rate,
        "probability of dropping a branch, of which drop_distribution gives each block its part",
        in(0.0, 1.0));
      f("drop_distribution", drop_distribution,
        "block i = 0, 1, ... of n is dropped at drop_rate times: linear: (i + 1) / n; "
        "linear_from_zero: i / (n - 1); linear_below: i / n; uniform: 1",
        one_of("linear", "linear_from_zero", "linear_below", "uniform"));
      f("scale_by_keep", scale_by_keep,
        "true: training divides kept branches by the probability of keeping them, as timm's and "
        "torchvision's drop path; false: evaluation multiplies by it");
      f("drop_warmup", drop_warmup, "how long the rates take to grow from 0 to their values",
        at_least(0));
      f("target_layer_name", target_layer_name,
        "for old recipes: has no effect, as every residual block is taken");
      f("use_same_gpu_seed", use_same_gpu_seed,
        "for old recipes: has no effect, as draws follow from the recipe's seed");
    }
    std::string check() const;
  };

  explicit StochasticDepth(Params params);

  std::string prevents_graph_capture() const override {
    return "draws on the host in every forward pass";
  }

  /// The parameters of a dropped branch get no gradient.
  bool leaves_out_parameters() const override {
    return params_.stochastic_method == "block" && params_.drop_rate > 0;
  }

  void init(State& state) override;
  void fit_start(State& state) override;
  void after_dataloader(State& state) override;

  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

  /// The share of their full rates that the blocks have at state.time; below 1 in the warmup.
  static double ramp(const State& state, const Time& warmup);
  /// The probability of dropping block `index` of `blocks`, counted from 0. linear counts residual
  /// blocks, the others all blocks (Block::adds_depth).
  static double rate(int64_t index, int64_t blocks, const Params& params);

 private:
  Params params_;
  std::shared_ptr<const DepthDraws> draws_;
};

/// Replaces every ResidualBlock in a slot by a StochasticBlock that reads `draws`. Weights and
/// their names stay. Throws UserError if there is none.
std::vector<Replacement> apply_stochastic_depth(Block& model, const StochasticDepth::Params& params,
                                                const std::weak_ptr<const DepthDraws>& draws);

}  // namespace composer
