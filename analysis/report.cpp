#include "analysis/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/comparison.h"
#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "analysis/picture_section.h"
#include "analysis/run_charts.h"
#include "analysis/time_parts.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// The colour that a run has in all charts.
std::string run_key(size_t index) {
  return element("i", {{"class", "key c" + std::to_string(index % 8)}}, "");
}

/// part(run) of each run, one below the other; with several runs each part can be folded.
template <class Part>
std::string of_each(const std::vector<Run>& runs, const Part& part) {
  if (runs.size() == 1) return part(runs[0]);
  std::string all;
  for (size_t index = 0; index < runs.size(); ++index) {
    const auto& run = runs[index];
    const auto inner = part(run);
    if (inner.empty()) continue;
    Attributes attributes;
    if (all.empty()) attributes.emplace_back("open", "");
    all += element("details", attributes,
                   element("summary", {}, run_key(index) + escaped(run.name)) + inner);
  }
  return all;
}

/// The outcomes of the runs [begin, end).
std::string outcome_table(const std::vector<Run>& runs, const Comparison& comparison, size_t begin,
                          size_t end) {
  std::string head = element("th", {}, "");
  for (size_t i = begin; i < end; ++i)
    head += element("th", {{"class", "number"}}, run_key(i) + escaped(runs[i].name));
  std::string rows;
  for (const auto& row : comparison.outcomes) {
    std::string cells = row_heading(escaped(row.label));
    for (size_t i = begin; i < end; ++i)
      cells += element("td", {{"class", row.winner == i ? "number best" : "number"}},
                       row.label == "status" ? status_pill(row.cells[i]) : escaped(row.cells[i]));
    rows += element("tr", {{"class", row.label.starts_with(' ') ? "faded" : ""}}, cells);
  }
  return wide_table("outcomes", head, rows);
}

/// The outcomes in tables of nearly equal numbers of runs, each as many as fit side by side.
std::string outcome_tables(const std::vector<Run>& runs) {
  constexpr size_t most = 5;
  const auto comparison = compared(runs);
  const size_t count = (runs.size() + most - 1) / most;
  std::string tables;
  for (size_t i = 0; i < count; ++i)
    tables +=
        outcome_table(runs, comparison, runs.size() * i / count, runs.size() * (i + 1) / count);
  return tables;
}

std::string constants_table(const RunCharts& charts, const std::vector<Run>& runs) {
  if (charts.constants.empty()) return "";
  std::string rows;
  for (const auto& [metric, values] : charts.constants) {
    std::string cells = row_heading(escaped(metric));
    for (const auto& value : values) cells += number_cell(value);
    rows += element("tr", {}, cells);
  }
  std::string head = element("th", {}, "");
  for (const auto& run : runs) head += element("th", {{"class", "number"}}, escaped(run.name));
  return element("h3", {}, "Logged and always the same") +
         element("div", {{"class", "wide"}},
                 element("table", {},
                         (runs.size() > 1 ? element("thead", {}, element("tr", {}, head)) : "") +
                             rows));
}

std::string fact_rows(const Run& run) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (run.description)
    for (const auto& line : run.description->header) {
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      facts.emplace_back(line.substr(0, colon), with_counts(line.substr(colon + 2)));
    }
  if (const auto& summary = run.summary) {
    if (!run.description) facts.emplace_back("device", summary->device + ", " + summary->precision);
    facts.emplace_back("ranks", std::to_string(summary->world_size));
    facts.emplace_back("peak memory", bytes_figure(summary->peak_memory_bytes));
    if (!summary->limited_by.empty())
      facts.emplace_back("limited by", "the " + summary->limited_by + ": it waited for data " +
                                           percent_figure(summary->wait_fraction.value_or(0)) +
                                           " of the time");
    facts.emplace_back("composer", summary->version);
  }
  std::string rows;
  for (const auto& [label, value] : facts)
    rows += element("tr", {}, row_heading(escaped(label)) + element("td", {}, escaped(value)));
  return rows.empty() ? "" : element("table", {{"class", "facts"}}, rows);
}

std::string surgery_list(const Run& run) {
  if (!run.description) return "";
  std::string all;
  for (const auto& [algorithm, changes] : run.description->surgery) {
    std::string items;
    for (const auto& change : changes) items += element("li", {}, escaped(change));
    all += element("dt", {}, escaped(algorithm)) + element("dd", {}, element("ul", {}, items));
  }
  return all.empty() ? "" : element("dl", {{"class", "surgery"}}, all);
}

std::string status_class(const std::string& status) {
  static const std::vector<std::string> known{"completed", "interrupted", "failed", "going on"};
  auto name = std::ranges::find(known, status) != known.end() ? status : std::string("killed");
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string card(const std::string& label, const std::string& value, const std::string& note = "") {
  return element("div", {{"class", "card"}},
                 element("span", {{"class", "label"}}, label) + element("strong", {}, value) +
                     (note.empty() ? "" : element("small", {}, escaped(note))));
}

/// A metric's last value, and its best value if it differs.
std::string metric_card(const RunOutcome& outcome, const std::string& metric) {
  const auto found = outcome.metrics.find(metric);
  if (found == outcome.metrics.end()) return "";
  const auto& [last, best, batch] = found->second;
  const auto text = [&](double value) {
    return is_share(metric) ? percent_figure(value) : figure(value);
  };
  const bool note = best && *best != last && !std::isnan(*best);
  return card(metric_label(metric), text(last),
              note ? "best " + text(*best) + " at step " + count_figure(batch) : "");
}

/// The header line `key` if all runs have the same; empty otherwise.
std::string shared_line(const std::vector<Run>& runs, const std::string& key) {
  const auto first = runs[0].told(key);
  const bool same =
      std::ranges::all_of(runs, [&](const auto& run) { return run.told(key) == first; });
  return same ? with_counts(first) : "";
}

/// "2026-11-22 21:31" from a date and time with seconds; "21:31" alone on the date of `other`.
std::string minute_of(const std::string& time, const std::string& other = "") {
  constexpr size_t date = 10, minute = 16;
  if (time.size() < minute) return time;
  return time.substr(0, date) == other.substr(0, date) ? time.substr(date + 1, minute - date - 1)
                                                       : time.substr(0, minute);
}

std::string time_line(const Run& run) {
  if (!run.description || run.description->began.empty()) return "";
  const auto& began = run.description->began;
  auto line = "began " + minute_of(began) + " on " + run.description->host;
  if (run.summary && !run.going_on && !run.summary->ended.empty())
    line += ", ended " + minute_of(run.summary->ended, began);
  return line;
}

std::string end_box(const Run& run, bool named) {
  if (!run.summary || run.going_on || run.summary->message.empty()) return "";
  return element("div", {{"class", "ending " + status_class(run.summary->status)}},
                 element("b", {}, escaped(named ? run.name : run.summary->status)) + " " +
                     escaped(run.summary->message));
}

/// A line of YAML with its key marked. Lines without a key stay as they are.
std::string marked_line(const std::string& line) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos || line.find_first_of("'\"[{") < colon) return escaped(line);
  return element("b", {}, escaped(line.substr(0, colon))) + ":" + escaped(line.substr(colon + 1));
}

/// A dotted key that a narrow page may break between its words.
std::string breakable(const std::string& key) {
  std::string text;
  for (const char c : key) text += escaped({&c, 1}) + (c == '.' || c == '_' ? "<wbr>" : "");
  return text;
}

std::string title_of(const std::vector<Run>& runs) {
  if (runs.size() == 1) return runs[0].name;
  return std::to_string(runs.size()) + " runs";
}

/// Title, network, data, time and host; for failed or interrupted runs also what ended them.
std::string header_of(const std::vector<Run>& runs) {
  const bool alone = runs.size() == 1;
  std::string title = element("h1", {}, escaped(title_of(runs)));
  if (alone) title += status_pill(runs[0].status());
  std::vector<std::string> lines{shared_line(runs, "network"), shared_line(runs, "training")};
  if (alone) lines.push_back(time_line(runs[0]));
  std::string rest;
  for (const auto& line : lines)
    if (!line.empty()) rest += element("p", {}, escaped(line));
  for (const auto& run : runs) rest += end_box(run, !alone);
  return element("header", {}, element("div", {{"class", "title"}}, title) + rest);
}

/// The last value of each metric, time, speed, memory.
std::string cards(const Run& run) {
  const auto outcome = outcome_of(run);
  std::string all;
  for (const char* metric :
       {"metrics/eval/mAP", "metrics/eval/Accuracy", "metrics/eval/CrossEntropy",
        "metrics/eval/BinaryCrossEntropy", "metrics/eval/MAE", "metrics/eval/R2", "loss/train"})
    all += metric_card(outcome, metric);
  for (const auto& [metric, values] : outcome.metrics)
    if (const auto set = evaluation_set(metric); !set.empty() && set != main_evaluation)
      if (metric_label(metric) != metric) all += metric_card(outcome, metric);
  all += card("time", duration_figure(outcome.seconds),
              counted(outcome.epochs, "epoch") + ", " + counted(outcome.batches, "step"));
  if (outcome.images_per_second)
    all += card(
        "images a second", figure(*outcome.images_per_second, 4),
        outcome.wait_fraction ? percent_figure(*outcome.wait_fraction) + " waiting for data" : "");
  if (outcome.peak_memory_bytes)
    all += card("peak memory", bytes_figure(*outcome.peak_memory_bytes));
  return element("div", {{"class", "cards"}}, all);
}

/// The resolved recipe as it stands in the run's folder; empty where there is none.
std::string recipe_text(const Run& run) {
  if (run.recipe_text.empty()) return "";
  std::istringstream in(run.recipe_text);
  std::string block, blocks;
  const auto end_block = [&] {
    if (!block.empty()) blocks += element("span", {{"class", "block"}}, block);
    block.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(' ') && !line.starts_with('-')) end_block();
    block += marked_line(line) + "\n";
  }
  end_block();
  return element("pre", {{"class", "recipe"}}, blocks);
}

/// A row per key that differs (recipe_differences), a column per run.
std::string difference_table(const std::vector<Run>& runs) {
  const auto differences = recipe_differences(runs);
  if (differences.empty()) return element("p", {}, "Nothing: all have the same settings.");
  std::string head = element("th", {}, ""), rows;
  for (const auto& run : runs) head += element("th", {}, escaped(run.name));
  auto json = nlohmann::ordered_json::object();
  for (const auto& [key, settings, values] : differences) {
    std::string cells = row_heading(breakable(key) + element("small", {}, escaped(settings)));
    for (const auto& value : values) {
      cells +=
          element("td", {}, value ? escaped(*value) : element("span", {{"class", "faded"}}, "–"));
      json[key].push_back(value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json());
    }
    rows += element("tr", {}, cells);
  }
  return wide_table("differences", head, rows) + data_element("id", "recipe-differences", json);
}

}  // namespace

std::string status_pill(const std::string& status) {
  return element("span", {{"class", "pill " + status_class(status)}}, escaped(status));
}

std::string report_page(const std::vector<Run>& runs) {
  const auto charts = charts_of(runs);
  std::string main = header_of(runs);
  main += runs.size() == 1 ? cards(runs[0]) : section("runs", "Outcomes", outcome_tables(runs));
  if (runs.size() > 1)
    main += section("differences", "What their recipes differ in", difference_table(runs));
  const auto curves = figures_of(charts.main);
  main += section("curves", "Curves", curves.empty() ? "" : axis_labels() + curves);
  main += section("time-spent", "Where the time went", time_section(runs));
  main += section("training-images", "Training images, as the network saw them",
                  of_each(runs, training_pictures));
  main += section("wrong", "What it is most wrong about", of_each(runs, wrong_pictures));
  main += section("classes", "Classes", of_each(runs, confusion_section));
  main += section("surgery", "Surgery", of_each(runs, surgery_list));
  main += section("others", "What else was logged",
                  figures_of(charts.others) + constants_table(charts, runs));
  main += section("system", "System and memory", of_each(runs, fact_rows));
  main += section("recipe", runs.size() == 1 ? "Recipe" : "Recipes", of_each(runs, recipe_text));
  return page_of(title_of(runs), main);
}

}  // namespace composer
