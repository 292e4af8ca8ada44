// lookahead: lets the network run ahead for a few steps and then moves slow weights a part of the
// way there, from which it starts again (Zhang et al. 2019, arXiv:1907.08610; with the schedule of
// Jordan 2024, arXiv:2404.00498, `cubic`).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/weight_copy.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// slow <- slow + share * (fast - slow), then fast <- slow, in place. Tensors that are not floating
/// point: slow <- fast. The lists run in parallel.
void look_back(const std::vector<at::Tensor>& slow, const std::vector<at::Tensor>& fast,
               double share);

/// Evaluation, checkpoints and other algorithms see the network itself, which equals the slow
/// weights after every `interval`.
class Lookahead : public UnrestrictedAlgorithm {
 public:
  struct Params {
    Time interval{5, TimeUnit::batch};
    Time start{0, TimeUnit::duration};
    std::string schedule = "constant";
    double alpha = 0.5;
    double decay = 0.95;
    std::optional<bool> buffers = std::nullopt;

    void fields(auto&& f) {
      f("interval", interval, "how long the network runs ahead; in ba or ep", above(0));
      f("start", start, "when the slow weights begin, as a copy of the network", at_least(0));
      f("schedule", schedule,
        "constant: slow weights move by alpha; cubic: by 1 - decay^(batches in interval) * (share "
        "of the run that is done)^3, and at the end the network becomes the slow weights",
        one_of("constant", "cubic"));
      f("alpha", alpha, "share of the way that slow weights move, with constant", above(0.0),
        in(0.0, 1.0));
      f("decay", decay, "what slow weights keep a batch at the end of the run, with cubic",
        in(0.0, 1.0));
      f("buffers", buffers,
        "batch-norm statistics have slow values too, beside the parameters; none: with cubic");
    }
    std::string check() const;
  };

  explicit Lookahead(const Params& params);

  static Compatibility compatibility();

  /// First on batch_end and epoch_end, before other algorithms read the weights.
  Order order(Event event) const override { return closing(event) ? Order::first : Order::last; }

  /// Only warns: a method may still fill weights from the first batch (whitening).
  void fit_start(State& state) override;
  void batch_start(State& state) override;
  void batch_end(State& state) override { update(state, false); }
  void epoch_end(State& state) override { update(state, true); }
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

  /// "slow.<parameter or buffer>"; nothing before `start`.
  StateDict state_dict() const override { return slow_.save(); }
  void load_state_dict(const StateDict& state) override { slow_.load(state); }

 private:
  void start(State& state);
  /// Copies rank 0's buffers to all ranks if buffers have slow values.
  void share_buffers(State& state) const;
  void update(State& state, bool epoch_end);
  /// Whether this is the last update of the run.
  bool ends(const State& state, bool epoch_end) const;
  /// The share that the slow weights keep in an update now.
  double kept(const State& state) const;

  Params params_;
  bool buffers_;
  WeightCopy slow_;
};

}  // namespace composer
