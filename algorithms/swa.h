// swa: averages the weights of the last part of training and ends with the average, which lies in a
// flatter place than any of them (Izmailov et al. 2018, arXiv:1803.05407).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/weight_copy.h"
#include "base/params/params.h"

namespace composer {

/// Adds `values` to averages, the mean of `count` sets of weights, in place.
void add_to_average(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                    int64_t count);

/// At swa_end the parameters become the average. The rest of training refreshes batch-norm
/// statistics, which are not averaged.
class Swa : public UnrestrictedAlgorithm {
 public:
  struct Params {
    Time swa_start{0.7, TimeUnit::duration};
    Time swa_end{0.97, TimeUnit::duration};
    Time update_interval{1, TimeUnit::epoch};
    bool schedule_swa_lr = false;
    std::string anneal_strategy = "linear";
    int64_t anneal_steps = 10;
    std::optional<double> swa_lr = std::nullopt;

    void fields(auto&& f) {
      f("swa_start", swa_start, "when averaging begins; in dur, ep or ba", at_least(0));
      f("swa_end", swa_end,
        "when the parameters become the average, in the unit of swa_start; what training is left "
        "refreshes batch-norm statistics",
        above(0));
      f("update_interval", update_interval,
        "how often the average takes in the parameters; in ep or ba", above(0));
      f("schedule_swa_lr", schedule_swa_lr,
        "false: learning rates are the business of the schedulers");
      f("anneal_strategy", anneal_strategy, "for old recipes: of schedule_swa_lr only",
        one_of("linear", "cos"));
      f("anneal_steps", anneal_steps, "for old recipes: of schedule_swa_lr only", at_least(0));
      f("swa_lr", swa_lr, "for old recipes: of schedule_swa_lr only", at_least(0));
    }
    std::string check() const;
  };

  static constexpr const char* average_prefix = "average.";

  explicit Swa(const Params& params) : params_(params) {}

  void fit_start(State& state) override;
  void batch_end(State& state) override;
  void epoch_end(State& state) override;

  /// "average.<parameter>" between the first update and swa_end, and the counters.
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  void update(State& state);
  void finish_if_due(State& state);

  Params params_;
  WeightCopy average_{average_prefix, false};
  int64_t events_ = 0;  ///< epochs or batches that ended since swa_start
  int64_t count_ = 0;   ///< sets of weights in the average
  bool finished_ = false;
};

}  // namespace composer
