// A study: a recipe trained in several variants, each with several seeds, and what sets them apart.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "analysis/repeats.h"
#include "base/machine_limits.h"

namespace composer {

/// A metric and the value that is to be reached.
struct StudyTarget {
  std::string metric;
  double value = 0;
};

/// The training of one variant with one seed.
struct StudyRun {
  std::string name;  ///< of its folder, among the study's runs
  int64_t seed = 0;
  /// Run::status(), but for a run that has no folder, and "stopped" for one that another process
  /// asked to stop
  std::string status = "not started";
  std::string message;           ///< of a failed or stopped one: what ended it
  std::optional<double> metric;  ///< at its end
  double seconds = 0;
  int64_t samples = 0;
  std::optional<double> images_per_second;  ///< of training alone
  std::optional<int64_t> peak_memory_bytes;
  int64_t jobs = 1;                     ///< trainings at a time of which it was one
  double others_share = 0;              ///< OtherPrograms::share() while it was trained
  std::optional<Curve::Point> reached;  ///< where the target was met first
  Curve curve;                          ///< of the metric
  bool has_page = false;                ///< report.html in its folder

  bool done() const { return status == "completed"; }
  /// Others had so much of the machine meanwhile that its times are marked.
  bool disturbed() const { return done() && others_share >= busy_share; }
};

/// As the run's folder tells it. One without a folder is not started.
StudyRun read_study_run(const std::filesystem::path& folder, int64_t seed,
                        const std::string& metric, const std::optional<StudyTarget>& target);

struct Variant {
  std::string name;
  std::vector<StudyRun> runs{};  ///< a seed each
  std::string impossible{};      ///< why there is no such recipe; then it has no runs
  std::string series{};          ///< variants of a series are drawn as one line
  std::string round{};           ///< of successive halving; else empty
};

/// What leaving out a and b together does beyond what leaving out each does: all - a - b + both.
struct Interaction {
  std::string name;
  std::array<size_t, 3> variants;  ///< without a, without b, without both
};

struct Study {
  std::string title;
  std::vector<std::string> notes;  ///< what is to be known of the numbers, a line each
  std::string metric;
  std::optional<StudyTarget> target;
  std::vector<Variant> variants;
  /// The others are compared with the first variant, the `reference`; else there is none.
  bool compared = true;
  std::vector<Interaction> interactions;
  std::optional<double> price_per_hour;  ///< of the machine
  std::optional<size_t> best;            ///< variant
};

/// What a variant's runs came to, of those that are done.
struct VariantFigures {
  Repeats metric, seconds, images_per_second, samples;
  Repeats samples_to_target, seconds_to_target;  ///< of those that met it
  std::optional<int64_t> peak_memory_bytes;      ///< the largest
  int64_t failed = 0;
};
VariantFigures figures_of(const Variant& variant);

/// The metric of the study's variant less that of its first.
Contrast difference_of(const Study& study, size_t variant);
Contrast contrast_of(const Study& study, const Interaction& interaction);

/// Variants of which none else has as good a metric in as little time: ascending in both.
std::vector<size_t> frontier_of(const Study& study);

/// Of the study's variants from `begin` on, counted from there, best first; those without a result
/// last.
std::vector<size_t> ranking_of(const Study& study, size_t begin);

/// Whether some of its runs have the metric.
bool has_result(const Study& study, size_t variant);

/// How sure it is that study.best is better than the next of those that were trained for as long;
/// nothing where there is none.
std::optional<std::string> note_on_best(const Study& study);

/// What means leave out, and what times are of: a line each.
std::vector<std::string> notes_on_runs(const Study& study);

/// Runs that are not done.
int64_t failed_runs(const Study& study);

/// {"study", "metric", "target", "variants": [{"name", "metric": {"mean", "deviation", "count"},
/// "seconds", ..., "difference": {"value", "margin", "beyond_noise"}, "runs": [{"seed", "status",
/// "metric", ...}]}], "interactions", "failed"}
nlohmann::ordered_json json_of(const Study& study);

/// A table with a line a variant, and what its marks mean.
std::string text_of(const Study& study);

/// A page of the report's style; needs nothing beside itself. runs: the folder of the runs seen
/// from the page's, which links to the page of each.
std::string study_page(const Study& study, const std::string& runs);

}  // namespace composer
