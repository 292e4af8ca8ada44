#include "cli/study_command.h"

#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "analysis/figure_text.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/rank_environment.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/study_runs.h"
#include "composer/recipe/overrides.h"
#include "composer/run/assemble.h"
#include "nn/network/model.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The default metric: the first of these metrics that the first evaluation set logs.
std::string usual_metric(const Words& logged) {
  const std::string set(evaluation_set(logged.front()));
  for (const char* name : {"Accuracy", "mAP", "R2"})
    if (const auto metric = "metrics/" + set + "/" + name;
        std::ranges::find(logged, metric) != logged.end())
      return metric;
  return logged.front();
}

void check_logged(const std::string& option, const std::string& metric, const Words& logged) {
  if (std::ranges::find(logged, metric) != logged.end()) return;
  const bool evaluates = !evaluation_set(logged.front()).empty();
  const bool wants_evaluation = !evaluation_set(metric).empty() && !evaluates;
  throw UserError(option + ": the recipe does not log " + metric +
                  (wants_evaluation ? ": it evaluates nothing (val_dataset, eval_interval)" : "") +
                  "; it logs " + joined(logged) + did_you_mean(metric, logged));
}

std::optional<StudyTarget> target_of(const std::string& text, const Words& logged) {
  if (text.empty()) return {};
  const size_t equals = text.rfind('=');
  StudyTarget target;
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  const auto [end, problem] =
      std::from_chars(number.data(), number.data() + number.size(), target.value);
  if (equals == std::string::npos || problem != std::errc{} ||
      end != number.data() + number.size() || !std::isfinite(target.value))
    throw UserError("--target: '" + text +
                    "' is not METRIC=VALUE, for instance metrics/eval/Accuracy=0.9");
  target.metric = text.substr(0, equals);
  check_logged("--target", target.metric, logged);
  if (target.metric.ends_with("Accuracy") && target.value > 1)
    throw UserError("--target: " + target.metric + " is a share, 1 at most, not " + number);
  return target;
}

std::string default_output(const std::string& command, const std::string& file) {
  return (fs::path(command == "ablate" ? "ablations" : command + "s") / name_of_recipe(file))
      .string();
}

std::string run_name(const StudyVariant& variant, int64_t seed) {
  return variant.file + "-seed" + std::to_string(seed);
}

void check_seeds(const StudyOptions& options, int64_t first) {
  constexpr int64_t largest = 4294967295;
  if (first + options.seeds - 1 > largest)
    throw UserError("--seeds: " + std::to_string(options.seeds) + " seeds from seed " +
                    std::to_string(first) + " on go beyond " + std::to_string(largest));
}

}  // namespace

void add_study_options(CLI::App& app, StudyOptions& options, int64_t seeds) {
  options.seeds = seeds;
  add_recipe(app, options.file, "the quickstart");
  app.add_option("--seeds", options.seeds,
                 "seeds of each variant: the recipe's and those after it (default: " +
                     std::to_string(seeds) + ")");
  app.add_option("--metric", options.metric,
                 "metric that compares the variants at the end of training (default: the "
                 "evaluation's accuracy, or its metric in place of one)");
  app.add_option("--target", options.target,
                 "METRIC=VALUE: counts images and seconds until it is reached");
  app.add_option("--jobs", options.jobs,
                 "trainings at a time, which share the processors (default: 1)");
  app.add_option("--output", options.output,
                 "folder of the runs, the page and what the study goes on from");
  app.add_flag("--json", options.json, "one JSON object instead of the table");
}

void check_study_options(const std::string& command, const StudyOptions& options,
                         const Words& words) {
  std::vector<std::string> wrong;
  for (const auto& [name, value] : {std::pair{"seeds", options.seeds}, {"jobs", options.jobs}})
    if (value < 1)
      wrong.push_back(std::string("--") + name + ": must be at least 1, not " +
                      std::to_string(value));
  if (const auto problem = local_folder_problem(options.output); !problem.empty())
    wrong.push_back("--output: " + problem);
  if (const auto size = read_rank_environment().size; size > 1)
    wrong.push_back("composer " + command + ": is started once, not as " + std::to_string(size) +
                    " ranks; it starts the trainings itself");
  Problems ignored;
  for (const auto& given : parse_overrides(words, ignored))
    for (const char* own : {"run_name", "run_dir", "autoresume", "progress_bar"})
      if (given.key == own)
        wrong.push_back("--" + given.key + ": composer " + command +
                        " sets it for each run; --output says where they are");
  if (!wrong.empty()) throw UserError(wrong);
}

std::string name_of_recipe(const std::string& file) { return fs::path(file).stem().string(); }

std::vector<std::string> logged_metrics(const Recipe& recipe) {
  auto on_host = recipe;  // a check need not open CUDA
  on_host.options.device = "cpu";
  const auto model = assemble_model(on_host).model;
  Words logged;
  const auto add_set = [&](std::string_view set, const Time& interval) {
    if (interval.value > 0)
      for (const auto& name : model->metric_names())
        logged.push_back("metrics/" + std::string(set) + "/" + name);
  };
  const auto& interval = recipe.options.eval_interval;
  if (recipe.val_dataset) add_set(main_evaluation, interval);
  for (const auto& evaluator : recipe.evaluators)
    add_set(evaluator.name, evaluator.options.eval_interval.value_or(interval));
  logged.emplace_back("loss/train");
  logged.push_back("metrics/train/" + std::string(model->objective().running_metric()));
  return logged;
}

StudyProgress::StudyProgress(const std::string& command, const StudyOptions& options,
                             const Recipe& recipe, nlohmann::ordered_json plan)
    : command_(command), options_(options), first_seed_(recipe.options.seed), folder_([&] {
        check_seeds(options_, first_seed_);
        scale_duration(recipe.options.max_duration, recipe.options.scale_schedule_ratio);
        const auto logged = logged_metrics(recipe);
        study_.metric = options_.metric.empty() ? usual_metric(logged) : options_.metric;
        check_logged("--metric", study_.metric, logged);
        study_.target = target_of(options_.target, logged);
        if (options_.output.empty()) options_.output = default_output(command, options_.file);
        plan["seeds"] = options_.seeds;
        return StudyFolder(options_.output, command, plan, recipe);
      }()) {}

Variant StudyProgress::variant_of(const StudyVariant& given) const {
  Variant variant{given.name, {}, given.problem, given.series, given.round};
  if (!given.recipe) return variant;
  for (int64_t i = 0; i < options_.seeds; ++i) {
    const auto name = run_name(given, first_seed_ + i);
    auto run = read_study_run(folder_.run(name), first_seed_ + i, study_.metric, study_.target);
    run.name = name;
    run.jobs = folder_.jobs_of(name);
    run.others_share = folder_.others_share_of(name);
    if (const auto problem = problems_.find(name); problem != problems_.end() && !run.done())
      run.message = problem->second, run.status = "failed";
    variant.runs.push_back(std::move(run));
  }
  return variant;
}

void StudyProgress::tell(const std::string& name, const std::string& variant, int64_t seed,
                         const std::string& problem) {
  const auto run = read_study_run(folder_.run(name), seed, study_.metric, study_.target);
  std::string line = "[" + std::to_string(++told_) + "/" + std::to_string(to_tell_) + "] " +
                     variant + ", seed " + std::to_string(seed) + ": ";
  if (!problem.empty()) {
    log::error(line + "failed: " + problem + "; its output is in " + folder_.log(name).string());
    return;
  }
  if (!run.done())
    line += "stopped";
  else if (run.metric)
    line += metric_label(study_.metric) + " " +
            metric_figure(study_.metric, *run.metric, decimals_for(std::abs(*run.metric))) + ", " +
            duration_figure(run.seconds);
  else
    line += "done, " + duration_figure(run.seconds);
  log::info(line);
}

void StudyProgress::train(const std::vector<StudyVariant>& variants) {
  std::vector<StudyTraining> trainings;
  std::map<std::string, std::string> shown;
  size_t all = 0;
  for (const auto& variant : variants) {
    if (!variant.recipe) continue;
    folder_.write_recipe(variant.file, *variant.recipe);
    const auto secret_recipe = recipe_with_secrets(*variant.recipe);
    Words words;
    if (!variant.recipe->options.save_remote.empty()) words.emplace_back("--save_remote=none");
    for (int64_t i = 0; i < options_.seeds; ++i, ++all) {
      const auto seed = first_seed_ + i;
      const auto name = run_name(variant, seed);
      shown[name] = variant.name;
      if (read_study_run(folder_.run(name), seed, study_.metric, {}).done()) continue;
      trainings.push_back(
          {variant.file, name, seed, secret_recipe, words, variant.recipe->options});
    }
  }
  to_tell_ = trainings.size(), told_ = 0;
  log::info(study_.title + ": " + counted(static_cast<int64_t>(all), "run") + " in " +
            folder_.path().string() +
            (trainings.size() < all
                 ? ", of which " + std::to_string(all - trainings.size()) + " are done"
                 : ""));
  int signal = 0;
  if (!trainings.empty()) {
    const bool gpus = std::ranges::any_of(
        trainings, [](const auto& training) { return training.options.device != "cpu"; });
    // Remaining runs get as many threads as they had among all runs.
    const MachineShares shares(std::min(options_.jobs, static_cast<int64_t>(all)), gpus);
    signal = train_all(folder_, trainings, shares,
                       [&](const StudyTraining& training, const std::string& problem) {
                         if (!problem.empty()) problems_[training.name] = problem;
                         tell(training.name, shown[training.name], training.seed, problem);
                       });
  }
  int64_t done = 0;
  for (const auto& variant : variants) {
    study_.variants.push_back(variant_of(variant));
    done += std::ranges::count_if(study_.variants.back().runs, &StudyRun::done);
  }
  if (signal == 0) return;
  try_to_write_page();
  log::info("interrupted: " + counted(done, "run") + " of " + std::to_string(all) +
            " are done; the same command goes on with the study in " + folder_.path().string());
  throw Interrupted{signal};
}

void StudyProgress::try_to_write_page() const {
  try {
    write_whole(folder_.page(), study_page(study_, "runs"));
    log::info("the page is " + folder_.page().string());
  } catch (const RunError& error) {
    log::warn(std::string("the page is not written: ") + error.what());
  }
}

int StudyProgress::finish() {
  const auto notes = notes_on_runs(study_);
  study_.notes.insert(study_.notes.end(), notes.begin(), notes.end());
  if (options_.json)
    std::cout << json_line(json_of(study_)) << std::endl;
  else
    std::cout << text_of(study_);
  try_to_write_page();
  const auto failed = failed_runs(study_);
  if (failed == 0) return 0;
  log::error(counted(failed, "run") + " failed; the same command tries " +
             (failed == 1 ? "it" : "them") + " again, and the others are kept");
  return 1;
}

}  // namespace composer
