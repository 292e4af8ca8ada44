#include "analysis/lr_range.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/figure_text.h"
#include "analysis/line_chart.h"
#include "analysis/markup.h"
#include "analysis/terminal_plot.h"
#include "base/json_number.h"
#include "base/terminal.h"

namespace composer {
namespace {

/// The loss has diverged once its running mean is above this many times its lowest value.
constexpr double too_much = 4;
/// The decay of the running mean of the losses at each step.
constexpr double keep = 0.8;
/// The reach of smoothed() to each side, as a part of all steps.
constexpr int64_t reach_part = 20;
/// The fall that counts, in standard deviations of the difference of two smoothed losses.
constexpr double least_fall = 4;
/// Steps before the lowest that a slope takes.
constexpr size_t least_steps = 6;

size_t place_of_lowest(const std::vector<double>& values) {
  return static_cast<size_t>(std::ranges::min_element(values) - values.begin());
}

/// The index of the lowest mean among those with `reach` losses on both sides.
size_t place_of_lowest_mean(const std::vector<double>& smooth, size_t reach) {
  if (smooth.size() <= 2 * reach) return 0;
  const auto begin = smooth.begin() + static_cast<std::ptrdiff_t>(reach);
  return static_cast<size_t>(
      std::min_element(begin, smooth.end() - static_cast<std::ptrdiff_t>(reach)) - smooth.begin());
}

struct Axes {
  Axis across, up;
};

/// The vertical axis is cut above twice the range of the losses before the lowest.
Axes axes_of(const LrRange& range, const std::vector<double>& smooth) {
  const auto& steps = range.steps();
  double low = INFINITY, high = -INFINITY, highest = -INFINITY;
  const size_t lowest = place_of_lowest(smooth);
  for (size_t i = 0; i < steps.size(); ++i) {
    low = std::min({low, steps[i].loss, smooth[i]}), highest = std::max(highest, smooth[i]);
    if (i <= lowest) high = std::max({high, steps[i].loss, smooth[i]});
  }
  high = std::min(std::max(high, highest), high + (high - low));
  return {Axis::logarithmic(steps.front().lr, steps.back().lr), Axis::linear(low, high)};
}

std::string curve_figure(const LrRange& range) {
  constexpr double width = 960, height = 360;
  static constexpr PlotArea area{60, 940, 10, 316};
  const auto smooth = range.smoothed();
  const auto [across_axis, up_axis] = axes_of(range, smooth);
  const auto x = [&axis = across_axis](double lr) { return area.x(axis.place(lr)); };
  const auto y = [&axis = up_axis](double loss) { return area.y(axis.place(loss)); };
  std::string dots, curve;
  std::string drawn = area.value_grid(
      up_axis, 8, [&axis = up_axis](double tick) { return tick_figure(tick, axis.high()); });
  for (const double tick : across_axis.ticks()) {
    drawn +=
        path_element("tick", "M" + length_text(x(tick)) + " " + length_text(area.bottom) + "v4");
    drawn += text_at(x(tick), area.bottom + 16, "course", figure(tick, 2));
  }
  drawn += area.base() + text_at(area.middle(), height - 6, "course unit", "learning rate");
  for (size_t i = 0; i < smooth.size(); ++i) {
    const auto at = length_text(x(range.steps()[i].lr));
    dots += element("circle", {{"cx", at},
                               {"cy", length_text(y(range.steps()[i].loss))},
                               {"r", "2"},
                               {"style", "fill-opacity:.4"}});
    curve += (curve.empty() ? "M" : "L") + at + " " + length_text(y(smooth[i]));
  }
  drawn += element("g", {{"class", "c7"}}, dots);
  drawn += element("g", {{"class", "c0"}}, path_element("line", curve));
  if (const auto suggestions = range.suggestions()) {
    int row = 0;
    for (const auto& [name, lr] : {std::pair{"suggestion", suggestions->steepest},
                                   {"valley", suggestions->valley},
                                   {"minimum / 10", suggestions->minimum_tenth}}) {
      drawn += path_element("pointer", "M" + length_text(x(lr)) + " " + length_text(area.top) +
                                           "V" + length_text(area.bottom));
      drawn += text_at(x(lr) + 5, area.top + 12 + 15 * row++, "", name + (" " + figure(lr, 3)));
    }
  }
  const std::string title = "training loss against the learning rate";
  return chart_figure(title, "a dot a step; smoothed", title, width, height, drawn);
}

}  // namespace

LrRange::LrRange(double least, double most, int64_t steps)
    : least_(least), most_(most), count_(steps) {}

double LrRange::lr(int64_t step) const {
  const double share = static_cast<double>(step) / static_cast<double>(count_ - 1);
  return least_ * std::pow(most_ / least_, std::min(share, 1.0));
}

bool LrRange::add(double loss) {
  const auto number = std::ssize(steps_);
  if (diverged_ || number == count_) return false;
  if (!std::isfinite(loss)) {
    diverged_ = true;
    return false;
  }
  steps_.push_back({lr(number), loss});
  sum_ = keep * sum_ + (1 - keep) * loss, weight_ = keep * weight_ + (1 - keep);
  const double mean = sum_ / weight_;
  best_ = number == 0 ? mean : std::min(best_, mean);
  diverged_ = mean > too_much * best_ || (number + 1 == count_ && ends_high());
  return !diverged_ && number + 1 < count_;
}

bool LrRange::ends_high() const {
  constexpr size_t latest = 3;
  if (steps_.size() < latest) return false;
  double sum = 0;
  for (size_t i = steps_.size() - latest; i < steps_.size(); ++i) sum += steps_[i].loss;
  return sum / latest > too_much * best_;
}

size_t LrRange::reach() const {
  return static_cast<size_t>(std::max<int64_t>(count_ / reach_part, 2));
}

std::vector<double> LrRange::smoothed() const {
  std::vector<double> means;
  const size_t count = steps_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t side = std::min({reach(), i, count - 1 - i});
    double sum = 0;
    for (size_t j = i - side; j <= i + side; ++j) sum += steps_[j].loss;
    means.push_back(sum / static_cast<double>(2 * side + 1));
  }
  return means;
}

std::string LrRange::problem() const {
  const auto smooth = smoothed();
  const size_t begin = reach(), end = place_of_lowest_mean(smooth, reach());
  if (end < begin + least_steps)
    return "the loss never falls: it is lowest after " +
           counted(static_cast<int64_t>(end), "step") +
           "; begin with a lower --lr_min, or give more --steps";
  double squares = 0;
  for (size_t i = begin; i <= end; ++i) {
    const double rest = steps_[i].loss - smooth[i];
    squares += rest * rest;
  }
  const auto window = static_cast<double>(2 * reach() + 1);
  // A mean lies closer to a loss that takes part in it than the true value does.
  const double variance = squares / static_cast<double>(end - begin + 1) * window / (window - 1);
  const double noise = std::sqrt(2 * variance / window);
  const double fall = smooth[begin] - smooth[end];
  if (fall > least_fall * noise) return "";
  return "the curve is too noisy: the loss falls by " + figure(fall, 3) +
         ", which is not much more than the noise of its mean, " + figure(noise, 3) +
         "; give more --steps, or a larger --train_batch_size";
}

std::optional<LrRange::Suggestions> LrRange::suggestions() const {
  if (!problem().empty()) return {};
  const auto smooth = smoothed();
  const size_t begin = reach(), end = place_of_lowest_mean(smooth, reach());
  const size_t side = std::min(reach(), (end - begin) / 3);
  const auto slope = [&](size_t i) { return smooth[i + side] - smooth[i - side]; };
  size_t steepest = begin + side;
  for (size_t i = steepest; i + side <= end; ++i)
    if (slope(i) < slope(steepest)) steepest = i;

  // The longest falling subsequence that ends at each step, and where it begins.
  std::vector<size_t> length(smooth.size(), 1), from(smooth.size());
  size_t longest = begin;
  for (size_t i = begin; i < smooth.size(); ++i) {
    from[i] = i;
    for (size_t j = begin; j < i; ++j)
      if (smooth[i] < smooth[j] && length[j] + 1 > length[i])
        length[i] = length[j] + 1, from[i] = from[j];
    if (length[i] > length[longest]) longest = i;
  }
  return Suggestions{steps_[steepest].lr, steps_[(from[longest] + longest) / 2].lr,
                     steps_[end].lr / 10};
}

nlohmann::ordered_json json_of(const LrRange& range) {
  nlohmann::ordered_json json;
  const auto suggestions = range.suggestions();
  const auto number = [&](double LrRange::Suggestions::*rule) {
    return suggestions ? nlohmann::ordered_json((*suggestions).*rule) : nlohmann::ordered_json();
  };
  json["suggestion"] = number(&LrRange::Suggestions::steepest);
  json["steepest"] = number(&LrRange::Suggestions::steepest);
  json["valley"] = number(&LrRange::Suggestions::valley);
  json["minimum_tenth"] = number(&LrRange::Suggestions::minimum_tenth);
  json["problem"] =
      suggestions ? nlohmann::ordered_json() : nlohmann::ordered_json(range.problem());
  json["diverged"] = range.diverged();
  auto& steps = json["steps"] = nlohmann::ordered_json::array();
  const auto smooth = range.smoothed();
  for (size_t i = 0; i < smooth.size(); ++i)
    steps.push_back({{"lr", range.steps()[i].lr},
                     {"loss", json_number(range.steps()[i].loss)},
                     {"smoothed", json_number(smooth[i])}});
  return json;
}

std::string text_of(const LrRange& range, int64_t columns, bool colors) {
  if (range.steps().size() < 2) return "";
  constexpr int64_t rows = 14, label_columns = 8, least_columns = 40;
  columns = std::max(columns, least_columns);
  const auto smooth = range.smoothed();
  const auto [across, up] = axes_of(range, smooth);
  DotField field(columns - label_columns - 2, rows);
  const auto x = [&, &across = across](double lr) {
    return std::llround(across.place(lr) * static_cast<double>(field.width() - 1));
  };
  const auto y = [&, &up = up](double loss) {
    return std::llround((1 - up.place(loss)) * static_cast<double>(field.height() - 1));
  };
  const auto& steps = range.steps();
  constexpr int faint = 7, clear = 0;
  for (const auto& step : steps) field.dot(x(step.lr), y(step.loss), faint);
  for (size_t i = 1; i < steps.size(); ++i)
    field.line(x(steps[i - 1].lr), y(smooth[i - 1]), x(steps[i].lr), y(smooth[i]), clear);
  const auto labels =
      row_labels(up, rows, [&up = up](double tick) { return tick_figure(tick, up.high()); });
  std::string text = "training loss, smoothed, against the learning rate\n";
  for (const auto& row : labelled_rows(field, labels, label_columns))
    text += (colors ? row : without_colors(row)) + "\n";
  std::string line(static_cast<size_t>(label_columns + 2), ' ');
  for (const double tick : across.ticks()) {
    const auto label = figure(tick, 2);
    const auto at = label_columns + 2 + x(tick) / 2 - columns_of(label) / 2;
    if (at <= columns_of(line) || at + columns_of(label) > columns) continue;
    line += std::string(static_cast<size_t>(at - columns_of(line)), ' ') + label;
  }
  return text + line + "\n";
}

std::string suggestion_text(const LrRange& range) {
  std::string text;
  if (const auto suggestions = range.suggestions())
    text = "suggestion: " + figure(suggestions->steepest, 3) +
           ", where the smoothed loss falls fastest\nvalley: " + figure(suggestions->valley, 3) +
           ", the middle of the longest fall\na tenth of the minimum's: " +
           figure(suggestions->minimum_tenth, 3) + "\n";
  else
    text = "no suggestion: " + range.problem() + "\n";
  if (!range.diverged())
    text +=
        "the loss did not diverge up to the last learning rate; a higher --lr_max would show "
        "where it does\n";
  return text;
}

std::string lr_range_page(const LrRange& range, const std::string& recipe) {
  const auto title = "learning rates of " + recipe;
  std::string words;
  const auto text = suggestion_text(range);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    words += element("p", {}, escaped(text.substr(begin, end - begin)));
  }
  const auto head =
      element("header", {},
              element("div", {{"class", "title"}}, element("h1", {}, escaped(title))) + words);
  const auto curve = range.steps().size() < 2 ? "" : curve_figure(range);
  return page_of(title, head + section("range", "Range test", curve) +
                            data_element("id", "lr-range", json_of(range)));
}

}  // namespace composer
