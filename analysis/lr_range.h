// The learning-rate range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks",
// arXiv:1506.01186): the loss while the learning rate grows from step to step, and what it
// suggests.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace composer {

class LrRange {
 public:
  struct Step {
    double lr, loss;
  };

  /// The learning rate grows by the same factor from step to step: 0 < least < most, steps >= 2.
  LrRange(double least, double most, int64_t steps);

  /// The learning rate of a step, counted from 0.
  double lr(int64_t step) const;
  /// Adds the loss of the next step. Returns false after the last step, and once a loss is not
  /// finite or the mean of the latest losses is above 4 times its lowest.
  bool add(double loss);

  const std::vector<Step>& steps() const { return steps_; }
  bool diverged() const { return diverged_; }
  /// The mean at each step over a twentieth of the test to each side, fewer at the ends.
  std::vector<double> smoothed() const;

  struct Suggestions {
    double steepest;       ///< where the smoothed loss falls fastest in the logarithm of lr
    double valley;         ///< the middle of the longest fall (fastai's rule)
    double minimum_tenth;  ///< a tenth of where the smoothed loss is lowest
  };
  /// Nothing if the loss does not fall by more than its noise; problem() then says so.
  std::optional<Suggestions> suggestions() const;
  /// Why there is no suggestion; empty if there is one.
  std::string problem() const;

 private:
  size_t reach() const;
  /// Whether the latest losses are too large; their running mean lags behind.
  bool ends_high() const;

  double least_, most_;
  int64_t count_;
  double sum_ = 0, weight_ = 0;  ///< exponential running mean of the losses
  double best_ = 0;              ///< lowest running mean
  bool diverged_ = false;
  std::vector<Step> steps_;
};

/// {"steps": [{"lr", "loss", "smoothed"}], "diverged", "suggestion", "steepest", "valley",
/// "minimum_tenth", "problem"}
nlohmann::ordered_json json_of(const LrRange& range);

/// The curve in a terminal of this many columns, as lines. colors: with escape sequences.
std::string text_of(const LrRange& range, int64_t columns, bool colors);
/// The suggestion of each rule on a line of its own.
std::string suggestion_text(const LrRange& range);

/// A page in the report's style. `recipe`: the recipe's name.
std::string lr_range_page(const LrRange& range, const std::string& recipe);

}  // namespace composer
