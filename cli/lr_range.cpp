// The subcommand lr-range: the learning-rate range test of a recipe.
#include "analysis/lr_range.h"

#include <unistd.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/run_context.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "cli/study_command.h"
#include "composer/run/assemble.h"
#include "composer/run/automatic_values.h"
#include "nn/optimization/optimizer.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

/// Increases the learning rate by the range test.
class GrowingRate final : public Scheduler {
 public:
  GrowingRate(const LrRange& range, double lr) : range_(range), lr_(lr) {}
  double multiplier(const Timestamp& now, const RunLength&, double) const override {
    return range_.lr(now.batch) / lr_;
  }

 private:
  const LrRange range_;  // a copy without recorded steps
  double lr_;
};

/// Passes the loss of each batch to the range test.
class LossReader final : public LogSink {
 public:
  explicit LossReader(LrRange& range) : range_(range) {}
  bool in_loop() const override { return true; }
  void write(const Record& record) override {
    if (record.event != "batch") return;
    for (const auto& [name, value] : record.values)
      if (name == "loss/train" && goes_on_) goes_on_ = range_.add(value);
  }
  bool goes_on() const { return goes_on_; }

 private:
  LrRange& range_;
  bool goes_on_ = true;
};

/// Ends the run when the test is over.
class StopsWith final : public Callback {
 public:
  explicit StopsWith(const LossReader& reader) : reader_(reader) {}
  void batch_end(const State&, Logger&, RunControl& control) override {
    if (!reader_.goes_on()) control.request_stop("the range test is over");
  }

 private:
  const LossReader& reader_;
};

struct RangeOptions {
  std::string file = "quickstart", output;
  double lr_min = 1e-6, lr_max = 10;
  int64_t steps = 100;
  bool json = false;
};

void check(const RangeOptions& options, const RankEnvironment& environment) {
  std::vector<std::string> wrong;
  for (const auto& [name, value] :
       {std::pair{"lr_min", options.lr_min}, {"lr_max", options.lr_max}})
    if (!(value > 0) || !std::isfinite(value))
      wrong.push_back(std::string("--") + name + ": must be a number above 0");
  if (wrong.empty() && options.lr_min >= options.lr_max)
    wrong.emplace_back("--lr_min: must be below --lr_max");
  constexpr int64_t least_steps = 20;
  if (options.steps < least_steps)
    wrong.push_back("--steps: must be at least " + std::to_string(least_steps) + ", not " +
                    std::to_string(options.steps));
  if (const auto size = environment.size; size > 1)
    wrong.push_back("composer lr-range: is started once, not as " + std::to_string(size) +
                    " ranks");
  if (!wrong.empty()) throw UserError(wrong);
}

/// The recipe for a run of `steps` batches that writes nothing and only trains.
Recipe for_test(Recipe recipe, int64_t steps) {
  auto& options = recipe.options;
  options.max_duration = {static_cast<double>(steps), TimeUnit::batch};
  options.scale_schedule_ratio = 1;
  leave_no_run(options);
  options.save_interval = options.eval_interval = {0, TimeUnit::epoch};
  options.log_interval = {1, TimeUnit::batch};
  options.on_nan = "ignore";  // a NaN ends the test
  if (!options.load_path.empty()) options.load_weights_only = true;
  if (options.split.val == 0) recipe.val_dataset = nullptr;
  recipe.evaluators.clear();
  recipe.schedulers.clear(), recipe.loggers.clear(), recipe.callbacks.clear();
  return recipe;
}

void run_test(const Recipe& recipe, const RunContext& context, const RangeOptions& options,
              LrRange& range) {
  const double lr = recipe.optimizer->build()->lr();
  if (!(lr > 0))
    throw UserError("optimizer: its lr is " + std::to_string(lr) + "; give one above 0");
  auto parts = assemble_training(recipe, context);
  parts.console = false;
  parts.recipe.clear();
  parts.schedulers = {std::make_shared<GrowingRate>(range, lr)};
  const auto reader = std::make_shared<LossReader>(range);
  parts.loggers = {reader};
  Trainer trainer(std::move(parts));
  trainer.add<StopsWith>("lr_range", *reader);
  log::info("lr-range: " + quantity(options.steps, "step"));
  const auto summary = trainer.fit();
  if (summary.signal != 0) throw Interrupted{summary.signal};
}

}  // namespace

int lr_range_command(const Words& words) {
  CLI::App app(
      "The learning-rate range test: trains for some steps while the learning rate grows, and "
      "suggests one from\nhow the loss falls. Leaves no run and no checkpoint.",
      "lr-range");
  RangeOptions options;
  add_recipe(app, options.file, "the quickstart");
  app.add_option("--lr_min", options.lr_min, "first learning rate (default: 1e-6)");
  app.add_option("--lr_max", options.lr_max, "last learning rate (default: 10)");
  app.add_option("--steps", options.steps, "batches (default: 100)");
  app.add_option("--output", options.output, "a page with the curve, for instance lr.html");
  app.add_flag("--json", options.json, "one JSON object instead of the curve");
  if (!parse(app, words)) return 0;
  const auto context = read_run_context();
  check(options, context.environment);
  std::optional<PageFile> page;
  if (!options.output.empty()) page.emplace("--output", options.output);
  const auto recipe = resolved_with_log(recipe_of(app, options.file), context);
  LrRange range(options.lr_min, options.lr_max, options.steps);
  run_test(for_test(recipe, options.steps), context, options, range);
  if (page) page->write(lr_range_page(range, name_of_recipe(options.file)));
  if (options.json)
    std::cout << json_line(json_of(range)) << std::endl;
  else
    std::cout << text_of(range, terminal_columns(), shows_colors(STDOUT_FILENO))
              << suggestion_text(range);
  return 0;
}

}  // namespace composer
