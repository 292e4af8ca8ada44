// The subcommand sweep: which values of a recipe's keys pay.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analysis/figure_text.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/url_secrets.h"
#include "cli/arguments.h"
#include "cli/study_command.h"
#include "cli/sweep_axes.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

constexpr const char* length_key = "scale_schedule_ratio";

struct SweepOptions {
  int64_t random = 0;
  bool halving = false;
  double price_per_hour = 0;
};

/// A point with its recipe at full length.
struct Candidate {
  std::string name, file, series;
  Recipe recipe;
};

/// A file name for a point: its number and name, with only letters, digits and .-_.
std::string file_of(size_t number, const std::string& name) {
  constexpr size_t most_letters = 60;
  std::string file = std::to_string(number + 1) + "-";
  for (const char c : name) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (kept || (c != ',' && file.back() != '-')) file += kept ? c : '-';
  }
  return file.substr(0, most_letters);
}

/// The candidates of all points. UserError with each problem once, even if several points have it.
std::vector<Candidate> candidates_of(const RecipeFile& file, const SweepWords& words,
                                     const std::vector<SweepPoint>& points,
                                     const Words& option_names) {
  std::vector<Candidate> candidates;
  Words problems;
  for (size_t i = 0; i < points.size(); ++i) {
    auto all = words.fixed;
    const auto own = words_of(words.axes, points[i]);
    all.insert(all.end(), own.begin(), own.end());
    const auto name = name_of(words.axes, points[i]);
    try {
      auto recipe = resolve(file, all, registry(), {.options = option_names});
      scale_duration(recipe.options.max_duration, recipe.options.scale_schedule_ratio);
      const bool over_length =
          std::ranges::any_of(words.axes, [](const auto& axis) { return axis.key == length_key; });
      candidates.push_back(
          {name, file_of(i, name),
           over_length ? name_of(words.axes, points[i], length_key) + " " : std::string(),
           std::move(recipe)});
    } catch (const UserError& error) {
      for (const auto& problem : error.problems())
        if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(problem);
    }
  }
  if (!problems.empty()) throw UserError(problems);
  return candidates;
}

/// The seed of the recipe, which no axis changes.
uint64_t seed_of(const RecipeFile& file, const SweepWords& words, const Words& option_names) {
  const auto seed = [](const Recipe& recipe) { return static_cast<uint64_t>(recipe.options.seed); };
  try {
    return seed(resolve(file, words.fixed, registry(), {.options = option_names}));
  } catch (const UserError&) {  // the recipe needs the value of an axis
    return seed(candidates_of(file, words, drawn_points(words.axes, 1, 0), option_names)[0].recipe);
  }
}

/// The recipe with `length` times its duration.
Recipe shortened(const Recipe& recipe, double length) {
  auto shorter = recipe;
  if (length < 1) shorter.options.scale_schedule_ratio *= length;
  return shorter;
}

void check_rounds(const std::vector<HalvingRound>& rounds,
                  const std::vector<Candidate>& candidates) {
  if (rounds.size() < 2)
    throw UserError("--halving: needs at least 3 points, there " +
                    std::string(candidates.size() == 1 ? "is " : "are ") +
                    std::to_string(candidates.size()));
  for (const auto& candidate : candidates) {
    const auto& options = candidate.recipe.options;
    try {
      scale_duration(options.max_duration, options.scale_schedule_ratio * rounds[0].length);
    } catch (const UserError&) {
      throw UserError("--halving: the first of " + std::to_string(rounds.size()) +
                      " rounds would train for 1/" +
                      std::to_string(std::llround(1 / rounds[0].length)) + " of max_duration " +
                      options.max_duration.str() +
                      ", which rounds to 0; give max_duration in ba, or fewer points");
    }
  }
}

/// Trains all candidates at full length. Returns the best one; empty if none has a result.
std::optional<size_t> train_grid(StudyProgress& progress,
                                 const std::vector<Candidate>& candidates) {
  std::vector<StudyVariant> variants;
  for (const auto& candidate : candidates)
    variants.push_back(
        {candidate.name, candidate.file, candidate.recipe, {}, candidate.series, {}});
  progress.train(variants);
  for (const size_t best : ranking_of(progress.study(), 0))
    if (has_result(progress.study(), best)) return progress.study().best = best;
  return {};
}

std::optional<size_t> train_rounds(StudyProgress& progress,
                                   const std::vector<Candidate>& candidates,
                                   const std::vector<HalvingRound>& rounds) {
  std::vector<size_t> left(candidates.size());
  std::iota(left.begin(), left.end(), size_t{0});
  auto& study = progress.study();
  for (size_t round = 0; round < rounds.size(); ++round) {
    left.resize(std::min(left.size(), static_cast<size_t>(rounds[round].points)));
    const auto label = std::to_string(round + 1) + " of " + std::to_string(rounds.size());
    std::vector<StudyVariant> variants;
    for (const size_t i : left)
      variants.push_back({candidates[i].name,
                          "round" + std::to_string(round + 1) + "-" + candidates[i].file,
                          shortened(candidates[i].recipe, rounds[round].length),
                          {},
                          {},
                          label});
    log::info("round " + label + ": " + counted(std::ssize(left), "point") + ", " +
              figure(rounds[round].length * 100, 3) + " % of the length");
    const size_t begin = study.variants.size();
    progress.train(variants);
    std::vector<size_t> next;
    study.best.reset();
    for (const size_t place : ranking_of(study, begin))
      if (has_result(study, begin + place)) {
        if (next.empty()) study.best = begin + place;
        next.push_back(left[place]);
      }
    left = std::move(next);
    if (left.empty()) return {};
  }
  return left.front();
}

/// The options that decide which points there are, for the plan of the study.
nlohmann::ordered_json plan_of(const SweepOptions& options, const std::string& metric,
                               const SweepWords& words) {
  nlohmann::ordered_json plan{{"random", options.random}, {"halving", options.halving}};
  if (options.halving) plan["metric"] = metric;
  for (const auto& axis : words.axes) {
    Words values;
    for (auto value : axis.values) {
      for (auto& word : value) word = address_without_secrets(word);
      values.push_back(joined(value, " "));
    }
    plan["--" + axis.key] = axis.range
                                ? figure(axis.range->low, 12) + ".." + figure(axis.range->high, 12)
                                : joined(values, ",");
  }
  return plan;
}

}  // namespace

int sweep_command(const Words& words) {
  CLI::App app(
      "Trains a recipe with several values of its keys, --lr 0.1,0.2,0.4 --scale_schedule_ratio "
      "0.25,0.5,1, and\nsays which is best. Started again after a kill, it continues.",
      "sweep");
  StudyOptions options;
  SweepOptions own;
  app.add_option("--random", own.random,
                 "number of points to draw from the grid, in place of all; from LOW..HIGH they are "
                 "drawn uniformly in the logarithm");
  app.add_flag("--halving", own.halving,
               "successive halving: all points for a short time, the best third for three times as "
               "long, and so on");
  app.add_option("--price_per_hour", own.price_per_hour,
                 "price of this machine; adds the cost of each training")
      ->check(positive());
  add_study_options(app, options, 1);
  if (!parse(app, words)) return 0;
  const auto given = overrides_of(app);
  check_study_options("sweep", options, given);
  const bool is_random = app.get_option("--random")->count() > 0;
  if (is_random && own.random < 1)
    throw UserError("--random: must be at least 1, not " + std::to_string(own.random));
  const auto divided_words = divided(given);
  const auto& axes = divided_words.axes;
  if (axes.empty())
    throw UserError(
        "composer sweep: no key has several values; give some, separated only by commas: --lr "
        "0.05,0.1,0.2");
  for (const auto& axis : axes) {
    if (axis.key == "seed")
      throw UserError(
          "--seed: every point is trained with the same seeds; --seeds N says how many");
    if (own.halving && axis.key == length_key)
      throw UserError(std::string("--") + length_key +
                      ": --halving sets it; leave one of them out");
  }

  const auto file = find_recipe(options.file);
  const auto points =
      is_random ? drawn_points(axes, own.random, seed_of(file, divided_words, option_names(app)))
                : grid_of(axes);
  if (is_random && std::ssize(points) < own.random)
    log::warn("--random: there are only " + std::to_string(points.size()) +
              " points; all are used");
  const auto candidates = candidates_of(file, divided_words, points, option_names(app));
  const auto rounds =
      own.halving ? halving_rounds(std::ssize(candidates)) : std::vector<HalvingRound>{};
  if (own.halving) check_rounds(rounds, candidates);

  StudyProgress progress("sweep", options, candidates[0].recipe,
                         plan_of(own, options.metric, divided_words));
  auto& study = progress.study();
  study.title = "sweep of " + name_of_recipe(options.file);
  study.compared = false;
  if (own.price_per_hour > 0) study.price_per_hour = own.price_per_hour;
  if (own.halving)
    study.notes.emplace_back(
        "each round starts from new weights, with schedules of its own length; only the last "
        "has the recipe's length");
  const auto best =
      own.halving ? train_rounds(progress, candidates, rounds) : train_grid(progress, candidates);
  if (options.seeds == 1)
    study.notes.emplace_back(
        "with one seed the noise is unknown, and the best may be best by chance; give --seeds 3");
  else if (const auto note = best ? note_on_best(study) : std::nullopt)
    study.notes.push_back(*note);
  const auto best_file = progress.folder().path() / "best.yaml";
  std::filesystem::remove(best_file);  // left by an earlier call
  if (best) {
    write_whole(best_file, dump_with_absolute_paths(candidates[*best].recipe));
    study.notes.push_back("best: " + candidates[*best].name + ", in " + best_file.string());
  }
  return progress.finish();
}

}  // namespace composer
