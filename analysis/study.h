// A study: a recipe trained in several variants, each with several seeds, and what sets them apart.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/curve.h"
#include "base/machine_limits.h"

namespace composer {

/// Mean and spread of repeated measurements.
struct Repeats {
  int64_t count = 0;
  double mean = 0;       ///< NaN without measurements
  double deviation = 0;  ///< sample standard deviation (n - 1); NaN for fewer than two measurements
};

Repeats repeats_of(const std::vector<double>& values);

/// The quantile of Student's t for a probability in (0, 1); the degrees of freedom are above 0 and
/// need not be whole.
double student_quantile(double probability, double degrees);

/// A weighted sum of means with its confidence interval.
struct Contrast {
  double value = 0;  ///< NaN if a mean is missing
  /// Half of the 95 % interval; empty if the noise is unknown because a part was not repeated or
  /// all repetitions of all parts were the same.
  std::optional<double> margin;

  /// Whether the interval excludes 0; nothing if the noise is unknown.
  std::optional<bool> beyond_noise() const;
};

/// The contrast of independent repetitions of unequal variance, by Student's t with the degrees of
/// freedom of Welch (1947, "The generalization of Student's problem") and Satterthwaite.
Contrast contrast_of(std::span<const std::pair<double, Repeats>> parts);

/// a - b.
Contrast difference_of(const Repeats& a, const Repeats& b);

/// A metric and the value that is to be reached.
struct StudyTarget {
  std::string metric;
  double value = 0;
};

/// The training of one variant with one seed.
struct StudyRun {
  std::string name;  ///< its folder's name among the study's runs
  int64_t seed = 0;
  /// Run::status(), "not started" without a folder, or "stopped" on another process's request
  std::string status = "not started";
  std::string message;           ///< what ended a failed or stopped run
  std::optional<double> metric;  ///< the value at the run's end
  double seconds = 0;
  int64_t samples = 0;
  std::optional<double> images_per_second;  ///< evaluation is not counted
  std::optional<int64_t> peak_memory_bytes;
  int64_t jobs = 1;                     ///< trainings that ran at the same time, itself included
  double others_share = 0;              ///< OtherPrograms::share() while it was trained
  std::optional<Curve::Point> reached;  ///< the point that met the target first
  Curve curve;                          ///< the metric over the run
  bool has_page = false;                ///< there is a report.html in its folder

  bool done() const { return status == "completed"; }
  /// Whether other programs used so much of the machine that the run's times are marked.
  bool disturbed() const { return done() && others_share >= busy_share; }
};

/// Reads the run's folder. A run without a folder is "not started".
StudyRun read_study_run(const std::filesystem::path& folder, int64_t seed,
                        const std::string& metric, const std::optional<StudyTarget>& target);

struct Variant {
  std::string name;
  std::vector<StudyRun> runs{};  ///< one per seed
  std::string impossible{};      ///< why the recipe cannot be made; such a variant has no runs
  std::string series{};          ///< variants of a series are drawn as one line
  std::string round{};           ///< the round of successive halving; empty in other studies
};

/// What leaving out a and b together does beyond what leaving out each does: all - a - b + both.
struct Interaction {
  std::string name;
  std::array<size_t, 3> variants;  ///< without a, without b, without both
};

struct Study {
  std::string title;
  std::vector<std::string> notes;  ///< remarks on the numbers, a line each
  std::string metric;
  std::optional<StudyTarget> target;
  std::vector<Variant> variants;
  /// Whether the other variants are compared with the first, which is the reference.
  bool compared = true;
  std::vector<Interaction> interactions;
  std::optional<double> price_per_hour;  ///< price of the machine
  std::optional<size_t> best;            ///< index of the best variant
};

/// The results of a variant's completed runs.
struct VariantFigures {
  Repeats metric, seconds, images_per_second, samples;
  Repeats samples_to_target, seconds_to_target;  ///< figures of the runs that met the target
  std::optional<int64_t> peak_memory_bytes;      ///< the largest
  int64_t failed = 0;
};
VariantFigures figures_of(const Variant& variant);

/// The metric of a variant minus the metric of the first variant.
Contrast difference_of(const Study& study, size_t variant);
Contrast contrast_of(const Study& study, const Interaction& interaction);

/// The Pareto frontier of time and metric: variants than which no other is as good in as little
/// time, ordered by time.
std::vector<size_t> frontier_of(const Study& study);

/// The variants from `begin` on, best first, as offsets from `begin`; variants without a result
/// come last.
std::vector<size_t> ranking_of(const Study& study, size_t begin);

/// Whether some run of the variant has the metric.
bool has_result(const Study& study, size_t variant);

/// Whether study.best is better than the next best variant of the same training length beyond the
/// noise; nothing if there is no other.
std::optional<std::string> note_on_best(const Study& study);

/// Remarks on runs that means leave out and on trainings that shared the machine, a line each.
std::vector<std::string> notes_on_runs(const Study& study);

/// The number of runs that are not completed.
int64_t failed_runs(const Study& study);

/// {"study", "metric", "target", "variants": [{"name", "metric": {"mean", "deviation", "count"},
/// "seconds", ..., "difference": {"value", "margin", "beyond_noise"}, "runs": [{"seed", "status",
/// "metric", ...}]}], "interactions", "failed"}
nlohmann::ordered_json json_of(const Study& study);

/// The results as a table.
struct StudyTable {
  std::vector<std::string> headings;           ///< the first belongs to the names
  std::vector<std::vector<std::string>> rows;  ///< each has as many cells as headings
  std::vector<bool> marked;  ///< per row, whether its difference is beyond the noise
};

StudyTable table_of(const Study& study);
/// The table of the interactions; no rows without interactions.
StudyTable interaction_table_of(const Study& study);

/// Remarks on the numbers and on failed runs, a line each.
std::vector<std::string> remarks_of(const Study& study);

/// A table with a line per variant, and the meaning of its marks.
std::string text_of(const Study& study);

/// A self-contained page in the report's style. `runs`: path of the runs' folder relative to the
/// page, for links to the pages of the runs.
std::string study_page(const Study& study, const std::string& runs);

}  // namespace composer
