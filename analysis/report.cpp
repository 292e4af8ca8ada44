#include "analysis/report.h"

#include "analysis/comparison.h"
#include "analysis/confusion_section.h"
#include "analysis/figure_text.h"
#include "analysis/headline.h"
#include "analysis/markup.h"
#include "analysis/page_parts.h"
#include "analysis/picture_section.h"
#include "analysis/recipe_section.h"
#include "analysis/run_charts.h"
#include "analysis/time_parts.h"

namespace composer {
namespace {

/// The colour that a run has in all charts.
std::string run_key(size_t index) {
  return element("i", {{"class", "key c" + std::to_string(index % 8)}}, "");
}

/// What each run has, one below the other; of several each can be folded.
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

/// Of the runs from `begin` to `end`.
std::string outcome_table(const std::vector<Run>& runs, const Comparison& comparison, size_t begin,
                          size_t end) {
  std::string head = element("th", {}, "");
  for (size_t i = begin; i < end; ++i)
    head += element("th", {{"class", "number"}}, run_key(i) + escaped(runs[i].name));
  std::string rows;
  for (const auto& row : comparison.outcomes) {
    std::string cells = element("th", {{"scope", "row"}}, escaped(row.label));
    for (size_t i = begin; i < end; ++i)
      cells += element("td", {{"class", row.winner == i ? "number best" : "number"}},
                       row.label == "status" ? status_pill(row.cells[i]) : escaped(row.cells[i]));
    rows += element("tr", {{"class", row.label.starts_with(' ') ? "faded" : ""}}, cells);
  }
  return element(
      "div", {{"class", "wide"}},
      element("table", {{"class", "outcomes"}},
              element("thead", {}, element("tr", {}, head)) + element("tbody", {}, rows)));
}

/// Tables of as many runs each as fit beside each other, about as many in each.
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
    std::string cells = element("th", {{"scope", "row"}}, escaped(metric));
    for (const auto& value : values) cells += element("td", {{"class", "number"}}, value);
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
    rows += element(
        "tr", {},
        element("th", {{"scope", "row"}}, escaped(label)) + element("td", {}, escaped(value)));
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

}  // namespace

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
