// dropout: sets features in front of a linear layer to zero at random while training, so that it
// relies on no few of them (Srivastava et al. 2014, "Dropout: a simple way to prevent neural
// networks from overfitting", JMLR 15).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "composer/loop/state.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// features [N, ..., F] -> the same, each zero with probability `rate`, in [0, 1), else times
/// 1 / (1 - rate). Draws depend on `layer` and the seed, batch and first sample of `state`.
at::Tensor dropout(const at::Tensor& features, double rate, const std::string& layer,
                   const State& state);

/// Dropout followed by `original`, with the parameters of `original` under their names. In
/// evaluation, and after `state` is destroyed, `original` alone.
class DropoutLinear : public Linear, public RoundsWithin {
 public:
  /// path: path of the layer in the network, so that no two layers share draws.
  DropoutLinear(std::shared_ptr<Linear> original, double rate, std::string path,
                std::weak_ptr<const State> state);

  at::Tensor forward(const at::Tensor& input) override;
  /// Rounds the features before some are dropped, because none are dropped in evaluation.
  at::Tensor forward_rounded(const at::Tensor& input, const Rounder& rounder) override;
  std::string describe() const override;
  bool by_rows() const override { return original_->by_rows(); }

 private:
  at::Tensor dropped(const at::Tensor& input) const;

  std::shared_ptr<Linear> original_;
  double rate_;
  std::string path_;
  std::weak_ptr<const State> state_;
};

/// Its layers drop features until it is destroyed. Destroy it before the State that init() got.
class Dropout : public Surgery {
 public:
  struct Params {
    double drop_rate = 0.2;
    std::string layers = "head";

    void fields(auto&& f) {
      f("drop_rate", drop_rate, "probability of dropping a feature, below 1", in(0.0, 1.0));
      f("layers", layers, "head: in front of the last linear layer; all: of every one",
        one_of("head", "all"));
    }
    std::string check() const { return drop_rate < 1 ? "" : "drop_rate: must be below 1"; }
  };

  static Compatibility compatibility() {
    return {.excludes = {{"no_op_model", "the one number has no layers for it to work on"}}};
  }

  explicit Dropout(Params params) : params_(std::move(params)) {}

  std::string prevents_graph_capture() const override {
    return "draws on the host in every forward pass";
  }
  void init(State& state) override;

 private:
  Params params_;
  std::shared_ptr<const State> state_;
};

/// Replaces the linear layers that `params` names by a DropoutLinear. If factorize split a layer,
/// its first half is replaced. Weights and their names stay. Throws UserError when there is none.
std::vector<Replacement> apply_dropout(Block& model, const Dropout::Params& params,
                                       const std::weak_ptr<const State>& state);

}  // namespace composer
