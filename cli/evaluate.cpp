// The subcommand eval.
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/table.h"
#include "cli/use_options.h"
#include "composer/recipe/options.h"
#include "composer/run/assemble.h"
#include "composer/run/run_description.h"
#include "nn/distributed/ranks.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// counts: int64 [true class][predicted class].
void add_confusion(ordered_json& line, const at::Tensor& counts,
                   const std::vector<std::string>& names) {
  const auto hits = counts.diagonal().to(at::kDouble), samples = counts.sum(1).to(at::kDouble);
  const auto accuracy = (hits / samples).contiguous();
  line["per_class"] = ordered_json::object();
  line["confusion"] = ordered_json::array();
  for (int64_t i = 0; i < counts.size(0); ++i) {
    line["per_class"][class_name(names, i)] = json_number(accuracy.const_data_ptr<double>()[i]);
    const auto row = counts[i].contiguous();
    line["confusion"].push_back(std::vector<int64_t>(row.const_data_ptr<int64_t>(),
                                                     row.const_data_ptr<int64_t>() + row.numel()));
  }
}

/// Prints a line for each metric: evaluation set, name and value.
void print_table(const std::vector<std::pair<std::string, double>>& metrics) {
  std::vector<Words> rows{{"set", "metric", "value"}};
  for (const auto& [name, value] : metrics) {
    const std::string set(evaluation_set(name));
    rows.push_back({set, name.substr(std::string_view("metrics/").size() + set.size() + 1),
                    number_text(value, 4)});
  }
  for (const auto& line : aligned(rows, "<<>")) std::cout << line << '\n';
}

/// UserError when the classes of the data differ from those that the weights were trained on.
void check_classes(const std::string& path, const std::vector<std::string>& data,
                   const std::vector<std::string>& trained, const Recipe& recipe) {
  if (data.empty() || trained.empty() || data == trained) return;
  throw UserError(path + ": has the classes " + first_few(data) + "; " + recipe.options.load_path +
                  " was trained on " + first_few(trained) +
                  ": the same label would mean two things; give the data class folders or list "
                  "labels of these names; some may be missing");
}

}  // namespace

int eval_command(const Words& words) {
  CLI::App app(
      "Evaluates weights on the recipe's val_dataset and evaluators: one JSON object on standard "
      "output, on a\nterminal a table.",
      "eval");
  UseOptions use;
  bool json = false;
  use.add_to(app);
  app.add_flag(
      "--json", json,
      "JSON on a terminal too, and per_class accuracy and confusion (rows: true classes) of "
      "val_dataset, where there are classes");
  if (!parse(app, words)) return 0;

  const auto recipe = resolve_for_use(use, app);
  const auto context = read_run_context();
  if (context.environment.rank > 0) log::quiet();
  auto parts = assemble_evaluation(recipe, context);
  const auto num_classes = parts.model->num_classes();
  auto names = parts.class_names;
  std::vector<std::pair<std::string, std::vector<std::string>>> sets;  // and class names
  if (recipe.val_dataset)
    sets.emplace_back(path_of(ChoiceKey::val_dataset, recipe.val_dataset->name()), names);
  for (const auto& set : parts.evaluators)
    sets.emplace_back(std::string(evaluators_key) + "." + set.name, set.class_names);
  std::vector<std::string> lines;
  if (parts.eval_loader) lines.push_back(evaluation_line(*parts.eval_loader, ""));
  for (const auto& set : parts.evaluators) lines.push_back(evaluation_line(*set.loader, set.name));
  Trainer trainer(std::move(parts));
  trainer.prepare();
  for (const auto& text : lines) log::info(text);
  const auto& trained = trainer.loaded().class_names;
  for (const auto& [path, classes] : sets) check_classes(path, classes, trained, recipe);
  ConfusionMatrix confusion(num_classes);
  const bool by_classes = !trainer.state().model->objective().takes_values();
  const auto metrics = trainer.evaluate_all(json && by_classes ? &confusion : nullptr);
  if (trainer.signal() != 0) return 128 + trainer.signal();
  if (!trainer.state().ranks.first()) return 0;
  if (!json && isatty(STDOUT_FILENO) == 1) {
    print_table(metrics);
    return 0;
  }
  ordered_json line;
  for (const auto& [name, value] : metrics) line[name] = json_number(value);
  if (json && by_classes && recipe.val_dataset) {
    if (names.empty()) names = trained;
    add_confusion(line, confusion.counts(), names);
  }
  std::cout << json_line(line) << std::endl;
  return 0;
}

}  // namespace composer
