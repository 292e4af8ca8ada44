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

  /// Of the step from 0 on.
  double lr(int64_t step) const;
  /// The loss of the next step. Returns whether to go on: not after the last, nor once the mean of
  /// the latest losses is above 4 times its lowest or a loss is not finite.
  bool add(double loss);

  const std::vector<Step>& steps() const { return steps_; }
  bool diverged() const { return diverged_; }
  /// Of each step the mean over a twentieth of the test to each side, fewer at the ends.
  std::vector<double> smoothed() const;

  struct Suggestions {
    double steepest;       ///< where the smoothed loss falls fastest in the logarithm of lr
    double valley;         ///< the middle of the longest fall (fastai's rule)
    double minimum_tenth;  ///< a tenth of where the smoothed loss is lowest
  };
  /// Nothing where the loss does not fall by more than its noise: problem() says so.
  std::optional<Suggestions> suggestions() const;
  /// Why there is no suggestion; empty where there is one.
  std::string problem() const;

 private:
  size_t reach() const;
  /// Whether the latest losses are too large, which their running mean is late to tell.
  bool ends_high() const;

  double least_, most_;
  int64_t count_;
  double sum_ = 0, weight_ = 0, best_ = 0;  ///< of the latest losses
  bool diverged_ = false;
  std::vector<Step> steps_;
};

/// {"steps": [{"lr", "loss", "smoothed"}], "diverged", "suggestion", "steepest", "valley",
/// "minimum_tenth", "problem"}
nlohmann::ordered_json json_of(const LrRange& range);

/// The curve in a terminal of so many columns, lines with newlines. colors: with escape sequences.
std::string text_of(const LrRange& range, int64_t columns, bool colors);
/// What the rules suggest, a line each.
std::string suggestion_text(const LrRange& range);

/// A page of the report's style. recipe: its name.
std::string lr_range_page(const LrRange& range, const std::string& recipe);

}  // namespace composer
