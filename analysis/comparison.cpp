#include "analysis/comparison.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/figure_text.h"
#include "base/json_number.h"
#include "base/terminal.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

const std::set<std::string> names_and_places{"run_name", "run_dir", "autoresume", "progress_bar"};

/// The default settings of the callbacks that every run has, even if its recipe does not name them.
const RecipeKeys of_every_run{{"callbacks.speed_monitor.window_size", "100"},
                              {"callbacks.image_monitor.num_images", "16"},
                              {"callbacks.image_monitor.interval", "0ba"}};

using KeyMap = std::map<std::string, std::string>;

/// "algorithms.blurpool" of "algorithms.blurpool.min_channels"; all of a shorter key.
std::string component_of(const std::string& key) {
  const size_t first = key.find('.');
  if (first == std::string::npos) return key;
  return key.substr(0, key.find('.', first + 1));
}

/// The keys of all runs, in the order of their recipes.
std::vector<std::string> keys_in_order(const std::vector<Run>& runs) {
  std::vector<std::string> keys;
  for (const auto& run : runs) {
    auto place = keys.begin();
    for (const auto& [key, value] : run.recipe) {
      const auto found = std::ranges::find(keys, key);
      place = (found == keys.end() ? keys.insert(place, key) : found) + 1;
    }
  }
  return keys;
}

using Values = std::vector<std::optional<std::string>>;

Values values_of(const std::vector<KeyMap>& recipes, const std::string& key) {
  Values values;
  for (const auto& recipe : recipes) {
    const auto found = recipe.find(key);
    values.push_back(found == recipe.end() ? std::nullopt
                                           : std::optional<std::string>(found->second));
  }
  return values;
}

/// Whether the values that exist differ.
bool differ(const Values& values) {
  std::set<std::string> distinct;
  for (const auto& value : values)
    if (value) distinct.insert(*value);
  return distinct.size() > 1;
}

bool has_component(const KeyMap& recipe, const std::string& component) {
  if (recipe.contains(component)) return true;
  const auto next = recipe.lower_bound(component + ".");
  return next != recipe.end() && next->first.starts_with(component + ".");
}

/// Whether `key` has keys below it in some recipe: a list of components, not a setting.
bool is_parent(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::any_of(keys, [&](const auto& other) { return other.starts_with(key + "."); });
}

/// The entry of a component that some runs lack.
RecipeDifference presence_of(const std::string& component, const std::vector<std::string>& keys,
                             const std::vector<KeyMap>& recipes) {
  std::string agreed;
  for (const auto& key : keys) {
    const auto values = values_of(recipes, key);
    if (component_of(key) != component || key == component || differ(values)) continue;
    const auto value =
        *std::ranges::find_if(values, [](const auto& one) { return one.has_value(); });
    agreed += (agreed.empty() ? "" : ", ") + key.substr(component.size() + 1) + " " + *value;
  }
  RecipeDifference presence{component, agreed, {}};
  for (const auto& recipe : recipes)
    presence.values.push_back(has_component(recipe, component) ? std::optional<std::string>("on")
                                                               : std::nullopt);
  return presence;
}

bool is_outcome(const std::string& metric) {
  return metric.starts_with("metrics/") || metric.starts_with("loss/");
}

void take_from_log(RunOutcome& outcome, const Run& run) {
  const auto last = run.last();
  outcome.epochs = last.epoch, outcome.batches = last.batch, outcome.samples = last.sample;
  outcome.seconds = last.seconds;
  for (const auto& entry : run.log)
    for (const auto& [name, value] : entry.values) {
      if (name == "throughput/samples_per_sec") outcome.images_per_second = value;
      if (name == "time/wait_fraction") outcome.wait_fraction = value;
      if (!is_outcome(name)) continue;
      auto& metric = outcome.metrics[name];
      const bool mean_of_part = entry.event == "batch" && name.starts_with("metrics/");
      if (mean_of_part && metric.best) continue;
      metric.last = value;
      if (!mean_of_part && (!metric.best || improves(name, value, *metric.best)))
        metric.best = value, metric.best_batch = entry.batch;
    }
}

void take_from_summary(RunOutcome& outcome, const RunSummary& summary) {
  outcome.epochs = summary.epochs, outcome.batches = summary.batches;
  outcome.samples = summary.samples, outcome.seconds = summary.seconds;
  if (summary.samples_per_second > 0) outcome.images_per_second = summary.samples_per_second;
  outcome.wait_fraction = summary.wait_fraction;
  outcome.peak_memory_bytes = summary.peak_memory_bytes;
  for (const auto& [name, value] : summary.metrics) {
    if (!is_outcome(name)) continue;
    const auto best = summary.best_metrics.find(name);
    outcome.metrics[name] = best == summary.best_metrics.end()
                                ? MetricOutcome{value, {}, 0}
                                : MetricOutcome{value, best->second.value, best->second.batch};
  }
}

template <class Get>
ComparisonRow row_of(const std::string& label, const std::vector<RunOutcome>& runs,
                     const Get& get) {
  ComparisonRow row{label, {}, {}};
  for (const auto& run : runs) row.cells.push_back(get(run));
  return row;
}

/// The run whose value of the metric is best; nothing if two runs share the best value or only one
/// run has any.
template <class Value>
std::optional<size_t> winner_of(const std::vector<RunOutcome>& runs, const std::string& metric,
                                const Value& value) {
  std::optional<size_t> best;
  bool shared = false;
  size_t rivals = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto found = runs[i].metrics.find(metric);
    if (found == runs[i].metrics.end()) continue;
    const std::optional<double> here = value(found->second);
    if (!here || std::isnan(*here)) continue;
    ++rivals;
    if (!best) {
      best = i;
      continue;
    }
    const double before = *value(runs[*best].metrics.at(metric));
    if (*here == before) shared = true;
    if (improves(metric, *here, before)) best = i, shared = false;
  }
  return shared || rivals < 2 ? std::nullopt : best;
}

/// Adds a row with the last values and, if the best value of some run differs from its last, rows
/// with the best values and their steps.
void add_metric_rows(std::vector<ComparisonRow>& rows, const std::vector<RunOutcome>& runs,
                     const std::string& metric) {
  double least = INFINITY;
  bool moved = false;
  for (const auto& run : runs) {
    const auto found = run.metrics.find(metric);
    if (found == run.metrics.end()) continue;
    const double last = found->second.last, best = found->second.best.value_or(last);
    moved = moved || (best != last && !std::isnan(best));
    for (const double value : {std::abs(last), std::abs(best)})
      if (value > 0) least = std::min(least, value);
  }
  const auto add = [&](const std::string& label, const auto& text) {
    rows.push_back(row_of(label, runs, [&](const auto& run) {
      const auto found = run.metrics.find(metric);
      return found == run.metrics.end() ? std::string() : text(found->second);
    }));
  };
  const int decimals = decimals_for(least);
  const auto add_values = [&](const std::string& label, const auto& value) {
    add(label, [&](const auto& outcome) {
      const std::optional<double> number = value(outcome);
      return number ? metric_figure(metric, *number, decimals) : std::string();
    });
    rows.back().winner = winner_of(runs, metric, value);
  };
  add_values(metric_label(metric), [](const auto& outcome) { return std::optional(outcome.last); });
  if (!moved) return;
  add_values("  best", [](const auto& outcome) { return outcome.best; });
  add("  at step", [](const auto& outcome) {
    return outcome.best ? count_figure(outcome.best_batch) : std::string();
  });
}

std::vector<ComparisonRow> rows_of(const std::vector<RunOutcome>& runs) {
  std::vector<ComparisonRow> rows{
      row_of("status", runs, [](const auto& run) { return run.status; }),
      row_of("epochs", runs, [](const auto& run) { return count_figure(run.epochs); }),
      row_of("steps", runs, [](const auto& run) { return count_figure(run.batches); }),
      row_of("time", runs, [](const auto& run) { return duration_figure(run.seconds); }),
      row_of("images/s", runs,
             [](const auto& run) {
               return run.images_per_second ? figure(*run.images_per_second) : std::string();
             }),
      row_of("waited for data", runs,
             [](const auto& run) {
               return run.wait_fraction ? percent_figure(*run.wait_fraction) : std::string();
             }),
      row_of("peak memory", runs, [](const auto& run) {
        return run.peak_memory_bytes ? bytes_figure(*run.peak_memory_bytes) : std::string();
      })};
  std::set<std::string> metrics;
  for (const auto& run : runs)
    for (const auto& [name, outcome] : run.metrics) metrics.insert(name);
  const auto add = [&](const auto& belongs) {
    for (const auto& metric : metrics)
      if (belongs(metric)) add_metric_rows(rows, runs, metric);
  };
  add([](const auto& metric) { return evaluation_set(metric) == main_evaluation; });
  add([](const auto& metric) {
    const auto set = evaluation_set(metric);
    return !set.empty() && set != main_evaluation;
  });
  for (const char* kind : {"metrics/train/", "loss/"})
    add([kind](const auto& metric) { return metric.starts_with(kind); });
  return rows;
}

/// The end of a dotted key, which says most of it, in this many columns.
std::string ending(std::string text, int64_t columns) {
  if (columns_of(text) <= columns) return text;
  while (columns_of(text) >= columns) text.erase(0, first_columns(text, 1).size());
  return "…" + text;
}

/// Labels, then a column a run.
class TextTable {
 public:
  /// whole: the cells are not shortened.
  void add(const std::string& label, std::vector<std::string> cells, bool whole) {
    rows_.push_back({label, std::move(cells), whole});
  }

  std::string text(int64_t columns) const {
    int64_t labels = 0;
    for (const auto& row : rows_) labels = std::max(labels, columns_of(row.label));
    labels = std::min(labels, columns / 2);
    const size_t count = rows_.front().cells.size();
    const auto widths = widths_for(columns - labels, count);
    std::string all;
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
      int64_t taken = labels;
      while (end < count && (end == begin || taken + gap + widths[end] <= columns))
        taken += gap + widths[end++];
      if (begin > 0) all += "\n";
      for (const auto& row : rows_) all += line_of(row, labels, widths, begin, end);
    }
    return all;
  }

 private:
  struct Row {
    std::string label;
    std::vector<std::string> cells;
    bool whole;
  };

  static constexpr int64_t gap = 2, most_of_shortened = 20;

  std::vector<int64_t> widths_of(size_t count, int64_t most) const {
    std::vector<int64_t> widths(count, 1);
    for (const auto& row : rows_)
      for (size_t i = 0; i < count; ++i) {
        const auto wanted = columns_of(row.cells[i]);
        widths[i] = std::max(widths[i], row.whole ? wanted : std::min(wanted, most));
      }
    return widths;
  }

  /// Nothing is shortened where there is room for everything.
  std::vector<int64_t> widths_for(int64_t columns, size_t count) const {
    auto whole = widths_of(count, columns);
    int64_t taken = 0;
    for (const auto width : whole) taken += gap + width;
    return taken <= columns ? whole : widths_of(count, std::min(most_of_shortened, columns - gap));
  }

  static std::string line_of(const Row& row, int64_t labels, const std::vector<int64_t>& widths,
                             size_t begin, size_t end) {
    std::vector<std::string> cells{ending(row.label, labels)};
    std::vector<int64_t> columns{labels};
    for (size_t i = begin; i < end; ++i) {
      cells.push_back(shortened(row.cells[i], widths[i]));
      columns.push_back(widths[i]);
    }
    return table_line(cells, columns) + "\n";
  }

  std::vector<Row> rows_;
};

}  // namespace

std::vector<RecipeDifference> recipe_differences(const std::vector<Run>& runs) {
  std::vector<KeyMap> recipes;
  for (const auto& run : runs) recipes.emplace_back(run.recipe.begin(), run.recipe.end());
  for (const auto& [key, value] : of_every_run)
    if (std::ranges::any_of(recipes,
                            [&key = key](const auto& recipe) { return recipe.contains(key); }))
      for (auto& recipe : recipes) recipe.try_emplace(key, value);
  const auto keys = keys_in_order(runs);
  std::vector<RecipeDifference> differences;
  std::set<std::string> named;
  for (const auto& key : keys) {
    if (names_and_places.contains(key) || is_parent(keys, key)) continue;
    const auto component = component_of(key);
    const bool lacking = std::ranges::any_of(
        recipes, [&](const auto& recipe) { return !has_component(recipe, component); });
    if (lacking && named.insert(component).second)
      differences.push_back(presence_of(component, keys, recipes));
    auto values = values_of(recipes, key);
    const bool sometimes = !lacking && std::ranges::count(values, Values::value_type()) > 0;
    if (key != component || !lacking)
      if (differ(values) || sometimes) differences.push_back({key, "", std::move(values)});
  }
  return differences;
}

RunOutcome outcome_of(const Run& run) {
  RunOutcome outcome;
  outcome.name = run.name, outcome.status = run.status();
  if (run.summary && !run.going_on)
    take_from_summary(outcome, *run.summary);
  else
    take_from_log(outcome, run);
  for (const char* file : {"summary.json", "hparams.yaml"})
    if (std::ranges::find(run.missing, file) != run.missing.end())
      outcome.missing.emplace_back(file);
  return outcome;
}

Comparison compared(const std::vector<Run>& runs) {
  Comparison comparison;
  for (const auto& run : runs) comparison.runs.push_back(outcome_of(run));
  comparison.outcomes = rows_of(comparison.runs);
  if (runs.size() > 1) comparison.differences = recipe_differences(runs);
  return comparison;
}

nlohmann::ordered_json json_of(const Comparison& comparison) {
  auto runs = nlohmann::ordered_json::array();
  const auto optional = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  for (const auto& run : comparison.runs) {
    auto metrics = nlohmann::ordered_json::object();
    for (const auto& [name, outcome] : run.metrics)
      metrics[name] = {{"last", json_number(outcome.last)},
                       {"best", outcome.best ? json_number(*outcome.best) : nullptr},
                       {"best_batch", outcome.best ? nlohmann::ordered_json(outcome.best_batch)
                                                   : nlohmann::ordered_json()}};
    runs.push_back({{"run", run.name},
                    {"status", run.status},
                    {"epochs", run.epochs},
                    {"batches", run.batches},
                    {"samples", run.samples},
                    {"seconds", run.seconds},
                    {"images_per_s", optional(run.images_per_second)},
                    {"wait_fraction", optional(run.wait_fraction)},
                    {"peak_memory_bytes", optional(run.peak_memory_bytes)},
                    {"metrics", metrics},
                    {"missing", run.missing}});
  }
  auto differences = nlohmann::ordered_json::object();
  for (const auto& difference : comparison.differences) {
    auto& values = differences[difference.key] = nlohmann::ordered_json::array();
    for (const auto& value : difference.values) values.push_back(optional(value));
  }
  return {{"runs", runs}, {"differences", differences}};
}

std::string text_of(const Comparison& comparison, int64_t columns) {
  TextTable table;
  std::vector<std::string> names;
  const std::vector<std::string> gaps(comparison.runs.size());
  for (const auto& run : comparison.runs) names.push_back(run.name);
  table.add("", names, false);
  for (const auto& row : comparison.outcomes) {
    auto cells = row.cells;
    if (row.winner) cells[*row.winner] = "* " + cells[*row.winner];
    table.add(row.label, std::move(cells), true);
  }
  if (!comparison.differences.empty())
    table.add("", gaps, false), table.add("recipes differ in", gaps, false);
  for (const auto& difference : comparison.differences) {
    std::vector<std::string> cells;
    for (const auto& value : difference.values) cells.push_back(value.value_or("-"));
    table.add("  " + difference.key, std::move(cells), false);
  }
  std::string text = table.text(columns);
  for (const auto& run : comparison.runs)
    for (const auto& file : run.missing) text += run.name + ": has no " + file + "\n";
  return text;
}

}  // namespace composer
