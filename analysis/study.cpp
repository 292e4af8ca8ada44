#include "analysis/study.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analysis/comparison.h"
#include "analysis/run.h"
#include "base/error.h"
#include "base/json_number.h"
#include "composer/run/run_requests.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

bool meets(const StudyTarget& target, double value) {
  return smaller_is_better(target.metric) ? value <= target.value : value >= target.value;
}

std::optional<Curve::Point> first_that_meets(const Curve& curve, const StudyTarget& target) {
  for (const auto& point : curve.points)
    if (meets(target, point.value)) return point;
  return {};
}

Repeats of_done(const Variant& variant, const auto& value) {
  std::vector<double> values;
  for (const auto& run : variant.runs)
    if (run.done())
      if (const std::optional<double> found = value(run)) values.push_back(*found);
  return repeats_of(values);
}

ordered_json number(const std::optional<double>& value) {
  return value ? json_number(*value) : ordered_json();
}

ordered_json mean(const Repeats& repeats) {
  return repeats.count > 0 ? json_number(repeats.mean) : ordered_json();
}

ordered_json json_of(const Repeats& repeats) {
  return {{"mean", mean(repeats)},
          {"deviation", repeats.count > 1 ? json_number(repeats.deviation) : ordered_json()},
          {"count", repeats.count}};
}

ordered_json json_of(const Contrast& contrast) {
  const auto beyond = contrast.beyond_noise();
  return {{"value", std::isnan(contrast.value) ? ordered_json() : json_number(contrast.value)},
          {"margin", number(contrast.margin)},
          {"beyond_noise", beyond ? ordered_json(*beyond) : ordered_json()}};
}

ordered_json json_of(const StudyRun& run) {
  const auto reached = [&](const auto& value) {
    return run.reached ? ordered_json(value(*run.reached)) : ordered_json();
  };
  ordered_json json{
      {"run", run.name},
      {"seed", run.seed},
      {"status", run.status},
      {"metric", number(run.metric)},
      {"seconds", run.seconds},
      {"samples", run.samples},
      {"jobs", run.jobs},
      {"others_share", run.others_share},
      {"images_per_s", number(run.images_per_second)},
      {"peak_memory_bytes",
       run.peak_memory_bytes ? ordered_json(*run.peak_memory_bytes) : ordered_json()},
      {"samples_to_target", reached([](const auto& point) { return point.sample; })},
      {"seconds_to_target", reached([](const auto& point) { return point.seconds; })}};
  if (!run.message.empty()) json["message"] = run.message;
  return json;
}

}  // namespace

StudyRun read_study_run(const std::filesystem::path& folder, int64_t seed,
                        const std::string& metric, const std::optional<StudyTarget>& target) {
  StudyRun study;
  study.name = folder.filename().string(), study.seed = seed;
  if (!std::filesystem::is_directory(folder)) return study;
  study.status = "killed";
  if (!std::filesystem::exists(folder / "metrics.jsonl") &&
      !std::filesystem::exists(folder / "summary.json"))
    return study;
  auto run = read_run_papers(folder);
  try {
    run.log = read_run_log(folder / "metrics.jsonl").entries;
  } catch (const UserError&) {  // it ended before anything was logged
  }
  const auto outcome = outcome_of(run);
  study.status = outcome.status;
  if (run.summary) study.message = run.summary->message;
  if (study.done() && run.summary && run.summary->stopped == stop_request_text)
    study.status = "stopped", study.message = run.summary->stopped;
  study.seconds = outcome.seconds, study.samples = outcome.samples;
  study.images_per_second = outcome.images_per_second;
  study.peak_memory_bytes = outcome.peak_memory_bytes;
  if (const auto found = outcome.metrics.find(metric); found != outcome.metrics.end())
    study.metric = found->second.last;
  study.curve = curve_of(run.log, metric);
  study.has_page = std::filesystem::exists(folder / "report.html");
  if (target) study.reached = first_that_meets(curve_of(run.log, target->metric), *target);
  return study;
}

VariantFigures figures_of(const Variant& variant) {
  VariantFigures figures;
  using Number = std::optional<double>;
  figures.metric = of_done(variant, [](const auto& run) { return run.metric; });
  figures.seconds = of_done(variant, [](const auto& run) { return Number(run.seconds); });
  figures.samples =
      of_done(variant, [](const auto& run) { return Number(static_cast<double>(run.samples)); });
  figures.images_per_second =
      of_done(variant, [](const auto& run) { return run.images_per_second; });
  figures.samples_to_target = of_done(variant, [](const auto& run) {
    return run.reached ? Number(static_cast<double>(run.reached->sample)) : Number();
  });
  figures.seconds_to_target = of_done(variant, [](const auto& run) {
    return run.reached ? Number(run.reached->seconds) : Number();
  });
  for (const auto& run : variant.runs) {
    if (!run.done()) ++figures.failed;
    if (run.done() && run.peak_memory_bytes)
      figures.peak_memory_bytes =
          std::max(figures.peak_memory_bytes.value_or(0), *run.peak_memory_bytes);
  }
  return figures;
}

Contrast difference_of(const Study& study, size_t variant) {
  return difference_of(figures_of(study.variants[variant]).metric,
                       figures_of(study.variants[0]).metric);
}

Contrast contrast_of(const Study& study, const Interaction& interaction) {
  const auto metric = [&](size_t variant) { return figures_of(study.variants[variant]).metric; };
  const auto& [a, b, both] = interaction.variants;
  const std::array parts{std::pair(1.0, metric(0)), std::pair(-1.0, metric(a)),
                         std::pair(-1.0, metric(b)), std::pair(1.0, metric(both))};
  return contrast_of(parts);
}

std::vector<size_t> frontier_of(const Study& study) {
  struct Place {
    size_t variant;
    double seconds, metric;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto figures = figures_of(study.variants[i]);
    if (figures.metric.count > 0 && std::isfinite(figures.metric.mean))
      places.push_back({i, figures.seconds.mean, figures.metric.mean});
  }
  const auto better = [&](double a, double b) { return improves(study.metric, a, b); };
  std::ranges::stable_sort(places, [&](const auto& a, const auto& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : better(a.metric, b.metric);
  });
  std::vector<size_t> frontier;
  double best = NAN;
  for (const auto& place : places)
    if (better(place.metric, best)) frontier.push_back(place.variant), best = place.metric;
  return frontier;
}

std::vector<size_t> ranking_of(const Study& study, size_t begin) {
  std::vector<size_t> order(study.variants.size() - begin);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<VariantFigures> figures;
  for (size_t i = begin; i < study.variants.size(); ++i)
    figures.push_back(figures_of(study.variants[i]));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const bool whole_a = figures[a].failed == 0, whole_b = figures[b].failed == 0;
    return whole_a != whole_b
               ? whole_a
               : improves(study.metric, figures[a].metric.mean, figures[b].metric.mean);
  });
  return order;
}

bool has_result(const Study& study, size_t variant) {
  return std::isfinite(figures_of(study.variants[variant]).metric.mean);
}

int64_t failed_runs(const Study& study) {
  int64_t failed = 0;
  for (const auto& variant : study.variants) failed += figures_of(variant).failed;
  return failed;
}

ordered_json json_of(const Study& study) {
  ordered_json json{{"study", study.title}, {"metric", study.metric}};
  json["target"] =
      study.target ? ordered_json{{"metric", study.target->metric}, {"value", study.target->value}}
                   : ordered_json();
  auto& variants = json["variants"] = ordered_json::array();
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto& variant = study.variants[i];
    const auto figures = figures_of(variant);
    ordered_json one{{"name", variant.name}};
    if (!variant.impossible.empty()) one["impossible"] = variant.impossible;
    if (!variant.round.empty()) one["round"] = variant.round;
    one.update(
        {{"metric", json_of(figures.metric)},
         {"seconds", mean(figures.seconds)},
         {"samples", mean(figures.samples)},
         {"images_per_s", mean(figures.images_per_second)},
         {"samples_to_target", mean(figures.samples_to_target)},
         {"seconds_to_target", mean(figures.seconds_to_target)},
         {"met_target", figures.samples_to_target.count},
         {"peak_memory_bytes",
          figures.peak_memory_bytes ? ordered_json(*figures.peak_memory_bytes) : ordered_json()}});
    if (study.price_per_hour && figures.seconds.count > 0)
      one["cost"] = *study.price_per_hour * figures.seconds.mean / 3600;
    if (study.compared && i > 0) one["difference"] = json_of(difference_of(study, i));
    auto& runs = one["runs"] = ordered_json::array();
    for (const auto& run : variant.runs) runs.push_back(json_of(run));
    variants.push_back(std::move(one));
  }
  if (!study.interactions.empty()) {
    auto& interactions = json["interactions"] = ordered_json::array();
    for (const auto& interaction : study.interactions) {
      ordered_json one{{"name", interaction.name}};
      one.update(json_of(contrast_of(study, interaction)));
      interactions.push_back(std::move(one));
    }
  }
  if (study.best) json["best"] = study.variants[*study.best].name;
  json["failed"] = failed_runs(study);
  return json;
}

}  // namespace composer
