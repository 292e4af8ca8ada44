#include <algorithm>

#include "analysis/figure_text.h"
#include "analysis/study.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// After the best, of those that were trained for as long.
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

}  // namespace

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
