// The subcommand train, with --plan and --dump.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/run_context.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/plan.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/recipe/recipe.h"
#include "composer/run/assemble.h"
#include "composer/run/automatic_values.h"

namespace composer {
namespace {

/// The text quoted for a shell.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// recipe: the path of the recipe, for the advice.
std::string limit_line(const Summary& summary, const std::string& recipe) {
  std::string line = "limited by the " + summary.limited_by() + ": it waited for data " +
                     number_text(summary.wait_fraction.value_or(0) * 100, 1) + " % of the time";
  if (summary.limited_by() != "step")
    line += "; composer bench headspace -f " + shell_word(recipe) + " says more";
  return line;
}

void say_what_came_of_it(const Summary& summary, const RunFolder& folder) {
  std::string line = summary.status + " after " + quantity(summary.time.epoch, "epoch") + ", " +
                     quantity(summary.time.batch, "batch");
  if (const auto found = summary.metrics.find("metrics/eval/Accuracy");
      found != summary.metrics.end())
    line += ", eval accuracy " + std::to_string(found->second);
  log::info(line);
  if (summary.wait_fraction)
    log::info(limit_line(summary, folder.kept() ? (folder.path() / "hparams.yaml").string()
                                                : std::string("RECIPE")));
  if (!folder.kept()) return;
  std::error_code none;
  log::info("the run is in " + folder.path().string() +
            ": summary.json, metrics.jsonl, hparams.yaml" +
            (std::filesystem::exists(folder.checkpoints() / "latest", none) ? ", checkpoints/latest"
                                                                            : "; no checkpoint"));
  if (summary.signal != 0)
    log::info("go on with: --run_name " + shell_word(folder.run_name()) +
              " --autoresume true (and the same recipe and overrides)");
}

void say_what_next(const RunFolder& folder) {
  const auto latest = shell_word((folder.checkpoints() / "latest").string());
  log::info(
      "next:\n"
      "  composer list                                   what there is: algorithms, models, "
      "datasets, recipes\n"
      "  composer describe algorithm progressive_resizing\n"
      "  composer train --algorithms channels_last       the same with one algorithm\n"
      "  composer train -f finetune --datadir YOUR_IMAGES --plan\n"
      "  composer eval --load_path " +
      latest +
      "\n"
      "  composer export " +
      latest + " --format torchscript --output network.pt");
}

/// Logs the path of the page, or how to write it. written: whether the run wrote it.
void say_where_page_is(const std::filesystem::path& run, bool written) {
  const auto page = shell_word((run / "report.html").string());
  std::error_code none;
  log::info(written && std::filesystem::exists(run / "report.html", none)
                ? "page: " + page
                : "page: composer report " + shell_word(run.string()) + " --output " + page);
}

}  // namespace

int train_command(const Words& words) {
  CLI::App app(
      "Trains by a recipe. Any key of the recipe can be given as --dotted.key VALUE; `composer "
      "describe` shows\n"
      "the keys of components, --dump all keys of a recipe.",
      "train");
  std::string file = "quickstart";
  bool dump_only = false, plan_only = false, profile = false;
  const auto* file_option = add_recipe(app, file, "the quickstart");
  app.add_flag("--plan", plan_only, "print what would run, without training");
  app.add_flag("--dump", dump_only, "print the resolved recipe as YAML");
  app.add_flag("--profile", profile,
               "trace steps: 5, after 5 and one to warm up, unless profiler.schedule says others");
  TrainerOptions options;
  app.footer("The run's own keys (composer describe shows those of components):\n" +
             help_text(collect(options)));
  if (!parse(app, words)) return 0;

  auto recipe = recipe_of(app, file);
  if (auto& traced_steps = recipe.options.profiler.schedule.active; profile && traced_steps == 0)
    traced_steps = 5;
  const auto context = read_run_context();
  if (dump_only) {
    const auto resolved = resolve_automatic_for_run(recipe, context, Purpose::plan);
    for (const auto& choice : resolved.choices) log::info("auto: " + choice);
    std::cout << dump(resolved.recipe);
    return 0;
  }
  if (plan_only) {
    std::cout << wrapped_for(STDOUT_FILENO, plan(recipe, context));
    return 0;
  }
  if (context.environment.rank > 0) log::quiet();
  const bool writes_page = std::ranges::any_of(
      recipe.loggers, [](const auto& logger) { return logger->name() == "report"; });
  Trainer trainer(assemble_training(recipe, context));
  const auto summary = trainer.fit();
  say_what_came_of_it(summary, trainer.folder());
  if (file_option->count() == 0 && summary.signal == 0 && trainer.folder().kept())
    say_what_next(trainer.folder());
  if (trainer.folder().kept()) say_where_page_is(trainer.folder().path(), writes_page);
  return summary.signal == 0 ? 0 : 128 + summary.signal;
}

}  // namespace composer
