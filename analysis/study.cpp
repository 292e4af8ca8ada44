#include "analysis/study.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

/// The continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300, enough = 1e-15;
  constexpr int most_terms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), product = d;
  for (int i = 1; i <= most_terms; ++i) {
    const double m = i;
    const std::array terms{m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                           -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
    double factor = 1;
    for (const double term : terms) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      factor = c * d;
      product *= factor;
    }
    if (std::abs(factor - 1) < enough) break;
  }
  return product;
}

/// Regularized: the share of Beta(a, b) below x, in [0, 1].
double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// The probability that Student's t is above `t`, which is not negative.
double student_tail(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
}

constexpr double confidence = 0.95;

using nlohmann::ordered_json;

bool meets(const StudyTarget& target, double value) {
  return smaller_is_better(target.metric) ? value <= target.value : value >= target.value;
}

std::optional<Curve::Point> first_that_meets(const Curve& curve, const StudyTarget& target) {
  const auto found = std::ranges::find_if(
      curve.points, [&](const auto& point) { return meets(target, point.value); });
  return found == curve.points.end() ? std::nullopt : std::optional(*found);
}

Repeats of_done(const Variant& variant, const auto& value) {
  std::vector<double> values;
  for (const auto& run : variant.runs)
    if (run.done())
      if (const std::optional<double> found = std::invoke(value, run)) values.push_back(*found);
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
    return run.reached ? ordered_json(std::invoke(value, *run.reached)) : ordered_json();
  };
  ordered_json json{{"run", run.name},
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
                    {"samples_to_target", reached(&Curve::Point::sample)},
                    {"seconds_to_target", reached(&Curve::Point::seconds)}};
  if (!run.message.empty()) json["message"] = run.message;
  return json;
}

}  // namespace

Repeats repeats_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Repeats repeats{std::ssize(values), NAN, NAN};
  if (values.empty()) return repeats;
  if (std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    repeats.mean = values[0];  // a sum would round
    if (values.size() > 1) repeats.deviation = 0;
    return repeats;
  }
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  repeats.mean = sum / count;
  for (const double value : values) squares += (value - repeats.mean) * (value - repeats.mean);
  if (values.size() > 1) repeats.deviation = std::sqrt(squares / (count - 1));
  return repeats;
}

double student_quantile(double probability, double degrees) {
  if (probability < 0.5) return -student_quantile(1 - probability, degrees);
  const double tail = 1 - probability;
  double low = 0, high = 1;
  while (student_tail(high, degrees) > tail && high < 1e300) low = high, high *= 2;
  constexpr int halvings = 200;
  for (int i = 0; i < halvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

std::optional<bool> Contrast::beyond_noise() const {
  if (!margin || std::isnan(value)) return {};
  return std::abs(value) > *margin;
}

Contrast contrast_of(std::span<const std::pair<double, Repeats>> parts) {
  Contrast contrast;
  double variance = 0, of_degrees = 0;
  bool repeated = true;
  for (const auto& [weight, repeats] : parts) {
    contrast.value += weight * repeats.mean;
    if (repeats.count < 2) {
      repeated = false;
      continue;
    }
    const auto count = static_cast<double>(repeats.count);
    const double of_mean = weight * weight * repeats.deviation * repeats.deviation / count;
    variance += of_mean;
    of_degrees += of_mean * of_mean / (count - 1);
  }
  if (!repeated || !(variance > 0) || !std::isfinite(variance)) return contrast;
  const double degrees = variance * variance / of_degrees;
  contrast.margin = student_quantile((1 + confidence) / 2, degrees) * std::sqrt(variance);
  return contrast;
}

Contrast difference_of(const Repeats& a, const Repeats& b) {
  const std::array parts{std::pair(1.0, a), std::pair(-1.0, b)};
  return contrast_of(parts);
}

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
  } catch (const UserError&) {  // the run ended before anything was logged
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
  const auto at_target = [&](const auto& value) {
    return of_done(variant, [&](const auto& run) {
      return run.reached ? std::optional<double>(std::invoke(value, *run.reached)) : std::nullopt;
    });
  };
  figures.metric = of_done(variant, &StudyRun::metric);
  figures.seconds = of_done(variant, &StudyRun::seconds);
  figures.samples = of_done(variant, &StudyRun::samples);
  figures.images_per_second = of_done(variant, &StudyRun::images_per_second);
  figures.samples_to_target = at_target(&Curve::Point::sample);
  figures.seconds_to_target = at_target(&Curve::Point::seconds);
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
