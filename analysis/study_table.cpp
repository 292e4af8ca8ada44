#include "analysis/study_table.h"

#include <algorithm>
#include <cmath>

#include "analysis/figure_text.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// Formats values of the study's metric, all with the same number of digits.
class MetricText {
 public:
  explicit MetricText(const Study& study) : share_(is_share(study.metric)) {
    double largest = 0;
    for (const auto& variant : study.variants)
      if (const double mean = figures_of(variant).metric.mean; std::isfinite(mean))
        largest = std::max(largest, std::abs(mean));
    if (!share_) decimals_ = decimals_for(largest);
  }

  std::string value(double value) const {
    return share_ && std::isfinite(value) ? plain(value) + " %" : plain(value);
  }
  std::string with_spread(const Repeats& repeats) const {
    if (repeats.count == 0) return "-";
    if (repeats.count == 1 || !std::isfinite(repeats.deviation)) return value(repeats.mean);
    return plain(repeats.mean) + " ± " + plain(repeats.deviation) + (share_ ? " %" : "");
  }
  /// With its sign; shares are in percentage points.
  std::string difference(const Contrast& contrast) const {
    if (std::isnan(contrast.value)) return "-";
    auto text = (contrast.value >= 0 ? "+" : "") + plain(contrast.value);
    if (contrast.margin) text += " ± " + plain(*contrast.margin);
    return text + (share_ ? " pp" : "");
  }

 private:
  std::string plain(double value) const {
    constexpr double too_many_digits = 1e7;
    if (!std::isfinite(value) || std::abs(value) >= too_many_digits) return figure(value);
    return decimal_figure(share_ ? value * 100 : value, decimals_);
  }

  bool share_;
  int decimals_ = 2;
};

std::string whole_count(double mean) { return count_figure(std::llround(mean)); }

std::string verdict(const Contrast& contrast) {
  const auto beyond = contrast.beyond_noise();
  if (std::isnan(contrast.value)) return "-";
  return !beyond ? "unknown" : *beyond ? "yes" : "no";
}

std::string target_text(const StudyTarget& target) {
  return metric_label(target.metric) + " " +
         (is_share(target.metric) ? figure(target.value * 100) + " %" : figure(target.value));
}

/// Of the runs that are done.
std::string to_target(const Repeats& repeats, const VariantFigures& figures, const auto& text) {
  if (figures.seconds.count == 0) return "-";
  if (repeats.count == 0) return "not met";
  auto cell = text(repeats.mean);
  if (repeats.count < figures.seconds.count)
    cell +=
        " (" + std::to_string(repeats.count) + " of " + std::to_string(figures.seconds.count) + ")";
  return cell;
}

bool any_repeated(const Study& study) {
  return std::ranges::any_of(study.variants,
                             [](const auto& variant) { return variant.runs.size() > 1; });
}

/// The mark behind the times of a variant with a disturbed run; empty otherwise.
std::string mark_of(const Variant& variant) {
  return std::ranges::any_of(variant.runs, &StudyRun::disturbed) ? "*" : "";
}

/// The meaning of the mark; empty if no variant has it.
std::string disturbance_of(const Study& study) {
  double most = 0;
  for (const auto& variant : study.variants)
    for (const auto& run : variant.runs)
      if (run.disturbed()) most = std::max(most, run.others_share);
  return most == 0 ? ""
                   : "*: the machine was busy meanwhile: " + others_text(most) +
                         " of a run; alone it would be faster";
}

bool any_done(const Study& study) {
  return std::ranges::any_of(study.variants, [](const auto& variant) {
    return std::ranges::any_of(variant.runs, &StudyRun::done);
  });
}

/// The second best of the variants that were trained for as long as the best.
std::optional<size_t> next_best(const Study& study) {
  std::optional<size_t> next;
  for (size_t i = 0; i < study.variants.size(); ++i) {
    if (i == *study.best || study.variants[i].round != study.variants[*study.best].round) continue;
    if (!has_result(study, i)) continue;
    const auto mean = [&](size_t variant) {
      return figures_of(study.variants[variant]).metric.mean;
    };
    if (!next || improves(study.metric, mean(i), mean(*next))) next = i;
  }
  return next;
}

std::string text_of(const StudyTable& table) {
  const auto widths = column_widths(table.headings, table.rows);
  std::string text = table_line(table.headings, widths) + "\n";
  for (const auto& row : table.rows) text += table_line(row, widths) + "\n";
  return text;
}

}  // namespace

StudyTable table_of(const Study& study) {
  const MetricText text(study);
  const bool rounds = std::ranges::any_of(
      study.variants, [](const auto& variant) { return !variant.round.empty(); });
  StudyTable table;
  table.headings = {""};
  if (rounds) table.headings.emplace_back("round");
  table.headings.push_back(metric_label(study.metric));
  if (study.compared) {
    table.headings.emplace_back("difference");
    table.headings.emplace_back("beyond noise");
  }
  table.headings.insert(table.headings.end(), {"time", "images/s"});
  if (study.target)
    table.headings.insert(table.headings.end(), {"images to target", "time to target"});
  table.headings.emplace_back("peak memory");
  if (study.price_per_hour) table.headings.emplace_back("cost");
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto& variant = study.variants[i];
    const auto figures = figures_of(variant);
    const auto contrast = study.compared && i > 0 ? difference_of(study, i) : Contrast{NAN, {}};
    std::vector<std::string> cells{variant.name};
    if (rounds) cells.push_back(variant.round);
    cells.push_back(variant.impossible.empty() ? text.with_spread(figures.metric) : "not possible");
    if (study.compared) {
      cells.push_back(i == 0 ? "" : text.difference(contrast));
      cells.push_back(i == 0 ? "" : verdict(contrast));
    }
    const bool any = figures.seconds.count > 0;
    const auto mark = mark_of(variant);
    const auto marked_duration = [&](double seconds) { return duration_figure(seconds) + mark; };
    cells.push_back(any ? marked_duration(figures.seconds.mean) : "-");
    cells.push_back(
        figures.images_per_second.count > 0 ? figure(figures.images_per_second.mean) + mark : "-");
    if (study.target) {
      cells.push_back(to_target(figures.samples_to_target, figures, whole_count));
      cells.push_back(to_target(figures.seconds_to_target, figures, marked_duration));
    }
    cells.push_back(figures.peak_memory_bytes ? bytes_figure(*figures.peak_memory_bytes) : "-");
    if (study.price_per_hour)
      cells.push_back(any ? decimal_figure(*study.price_per_hour * figures.seconds.mean / 3600, 2) +
                                mark
                          : "-");
    table.rows.push_back(std::move(cells));
    table.marked.push_back(contrast.beyond_noise().value_or(false));
  }
  return table;
}

StudyTable interaction_table_of(const Study& study) {
  const MetricText text(study);
  StudyTable table{{"", "interaction", "beyond noise"}, {}, {}};
  for (const auto& interaction : study.interactions) {
    const auto contrast = contrast_of(study, interaction);
    table.rows.push_back({interaction.name, text.difference(contrast), verdict(contrast)});
    table.marked.push_back(contrast.beyond_noise().value_or(false));
  }
  return table;
}

std::vector<std::string> remarks_of(const Study& study) {
  std::vector<std::string> remarks;
  if (any_done(study) && any_repeated(study))
    remarks.push_back(metric_label(study.metric) +
                      ": mean ± standard deviation over the seeds, at the end of training");
  if (study.compared && !any_repeated(study))
    remarks.emplace_back(
        "with one seed the noise is unknown: no difference here is known to be more than chance; "
        "--seeds 3 tells");
  else if (study.compared)
    remarks.push_back("difference: to '" + study.variants[0].name +
                      "', ± half of its 95 % interval (Welch's t); beyond noise: the interval "
                      "leaves out 0, which by chance happens to 1 of 20 that make no difference");
  if (study.compared && is_share(study.metric)) remarks.emplace_back("pp: percentage points");
  if (study.target) remarks.push_back("target: " + target_text(*study.target));
  if (auto disturbance = disturbance_of(study); !disturbance.empty())
    remarks.push_back(std::move(disturbance));
  remarks.insert(remarks.end(), study.notes.begin(), study.notes.end());
  for (const auto& variant : study.variants) {
    if (!variant.impossible.empty())
      remarks.push_back(variant.name + ": not possible: " + variant.impossible);
    for (const auto& run : variant.runs)
      if (!run.done())
        remarks.push_back(run.name + ": " + run.status +
                          (run.message.empty() ? "" : ": " + run.message));
  }
  return remarks;
}

std::string text_of(const Study& study) {
  std::string text = text_of(table_of(study));
  if (!study.interactions.empty()) text += "\n" + text_of(interaction_table_of(study));
  text += "\n";
  for (const auto& remark : remarks_of(study)) text += remark + "\n";
  return text;
}

std::optional<std::string> note_on_best(const Study& study) {
  const auto next = next_best(study);
  if (!next) return {};
  const auto contrast = difference_of(figures_of(study.variants[*study.best]).metric,
                                      figures_of(study.variants[*next]).metric);
  const auto beyond = contrast.beyond_noise();
  return "the best and the next, " + study.variants[*next].name + ", differ by " +
         figure(contrast.value, 3) +
         (contrast.margin ? " ± " + figure(*contrast.margin, 3) + " (95 %, Welch's t): " +
                                (*beyond ? "beyond" : "within") + " the noise"
                          : ": the noise is unknown");
}

std::vector<std::string> notes_on_runs(const Study& study) {
  std::vector<std::string> notes;
  int64_t shared = 0, most = 1, runs = 0;
  for (const auto& variant : study.variants)
    for (const auto& run : variant.runs)
      ++runs, shared += run.jobs > 1, most = std::max(most, run.jobs);
  if (shared > 0)
    notes.push_back(
        "times and images/s" +
        (shared < runs ? " of " + std::to_string(shared) + " of the " + counted(runs, "run")
                       : std::string()) +
        ": with up to " + std::to_string(most) + " trainings at a time on this machine (--jobs)");
  for (const auto& variant : study.variants) {
    const auto figures = figures_of(variant);
    if (figures.failed > 0 && figures.metric.count > 0)
      notes.push_back(variant.name + ": " + std::to_string(figures.failed) + " of " +
                      std::to_string(variant.runs.size()) +
                      " runs failed; its figures are those of the others");
  }
  return notes;
}

}  // namespace composer
