// ema: keeps an exponential moving average of the weights and evaluates with it, which generalises
// better than the weights of any one step (Polyak and Juditsky 1992; Izmailov et al. 2018,
// arXiv:1803.05407).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/weight_copy.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// The weight of a value after `interval`, if it is one half after `half_life`:
/// 2^(-interval / half_life).
double ema_decay(double half_life, double interval);

/// averages <- decay * averages + (1 - decay) * values, in place. Tensors that are not floating
/// point are copied.
void compute_ema(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                 double decay);

/// Training never uses the average. Evaluation and prediction use only the average, from the first
/// update on.
class Ema : public UnrestrictedAlgorithm {
 public:
  struct Params {
    Time half_life{100, TimeUnit::batch};
    std::optional<Time> update_interval = std::nullopt;
    Time ema_start{0, TimeUnit::duration};
    bool train_with_ema_weights = false;

    void fields(auto&& f) {
      f("half_life", half_life, "after this long a step's weights count one half; in ep or ba",
        above(0));
      f("update_interval", update_interval,
        "how often the average takes in the weights, in the unit of half_life; none: 1 of it",
        above(0));
      f("ema_start", ema_start, "when the average begins, as a copy of the weights", at_least(0));
      f("train_with_ema_weights", train_with_ema_weights,
        "for old recipes: must be false, as training goes on from its own weights");
    }
    std::string check() const;
  };

  explicit Ema(const Params& params);

  static constexpr const char* average_prefix = "shadow.";

  static Compatibility compatibility() {
    return {.excludes = {{"swa", "each ends with an average of its own to be evaluated"}}};
  }

  /// Runs last on batch_end and epoch_end, after other algorithms changed weights. In an evaluation
  /// the average is in the model before and after the functions of other algorithms.
  Order order(Event event) const override { return closing(event) ? Order::last : Order::first; }

  void fit_start(State& state) override;
  /// Lets the optimizer's step do the update of batch_end, if nothing happens in between.
  void after_train_batch(State& state) override;
  void batch_end(State& state) override { update(state, false); }
  void epoch_end(State& state) override { update(state, true); }
  void eval_start(State& state) override { swap_in(state); }
  void eval_end(State& state) override { swap_out(state); }
  void predict_start(State& state) override { swap_in(state); }
  void predict_end(State& state) override { swap_out(state); }

  /// "shadow.<parameter or buffer>"; nothing before the first update.
  StateDict state_dict() const override { return shadow_.save(); }
  void load_state_dict(const StateDict& state) override { shadow_.load(state); }

 private:
  void update(State& state, bool epoch_end);
  void swap_in(State& state);
  void swap_out(State& state);
  void swap(State& state);

  Params params_;
  Time interval_;
  double decay_;
  WeightCopy shadow_{average_prefix, true};
  bool handed_over_ = false;  ///< the optimizer does this batch's update, except for copied tensors
  bool swapped_ = false;
};

}  // namespace composer
