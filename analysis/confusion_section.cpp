#include "analysis/confusion_section.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "analysis/picture_section.h"
#include "base/terminal.h"

namespace composer {
namespace {

constexpr int64_t most_drawn_classes = 40, most_counted_classes = 20, most_bars = 40,
                  most_beside_mixups = 14;
constexpr size_t most_mixups = 10;

struct ClassResult {
  int64_t label, samples = 0, hits = 0;
  double accuracy() const { return static_cast<double>(hits) / static_cast<double>(samples); }
};

/// Of the classes that have samples.
std::vector<ClassResult> results_of(const EvaluationRecord& record) {
  std::vector<ClassResult> all(static_cast<size_t>(record.num_classes));
  for (size_t i = 0; i < all.size(); ++i) all[i].label = static_cast<int64_t>(i);
  for (const auto& cell : record.confusion) {
    auto& one = all.at(static_cast<size_t>(cell.label));
    one.samples += cell.count;
    if (cell.label == cell.taken_for) one.hits += cell.count;
  }
  std::erase_if(all, [](const auto& one) { return one.samples == 0; });
  return all;
}

std::string accuracy_bars(const Run& run, std::vector<ClassResult> results) {
  std::ranges::stable_sort(results, {}, &ClassResult::accuracy);
  const bool cut = std::ssize(results) > most_bars;
  if (cut) results.resize(most_bars);
  std::string rows;
  for (const auto& one : results)
    rows += element(
        "tr", {},
        element("th", {{"scope", "row"}}, escaped(run.class_name(one.label))) +
            element("td", {{"class", "meter"}},
                    element("span", {{"style", "width:" + length_text(one.accuracy() * 100) + "%"}},
                            "")) +
            element("td", {{"class", "number"}}, percent_figure(one.accuracy())) +
            element("td", {{"class", "number faded"}},
                    count_figure(one.hits) + " of " + count_figure(one.samples)));
  const auto title = cut ? "The " + std::to_string(most_bars) + " classes it does worst on"
                         : std::string("Accuracy by class, worst first");
  return element("div", {},
                 element("h3", {}, title) + element("table", {{"class", "meters"}}, rows));
}

/// The drawing's measures, in its units: about pixels, however many classes there are.
constexpr double widest_cell = 42, widest_field = 520, letter_width = 6.2;
constexpr int64_t most_letters = 18;

struct MatrixMeasures {
  double cell, font, label_room;  ///< label_room: beside the cells and above them
};

/// What fits into the room of a label.
std::string short_name(const std::string& name) {
  return columns_of(name) <= most_letters ? name : first_columns(name, most_letters - 1) + "…";
}

MatrixMeasures measures_of(const Run& run) {
  const auto classes = run.evaluation->num_classes;
  MatrixMeasures measures{};
  measures.cell = std::min(widest_cell, widest_field / static_cast<double>(classes));
  measures.font = std::min(10.5, measures.cell * 0.8);
  int64_t longest = 0;
  for (int64_t i = 0; i < classes; ++i)
    longest = std::max(longest, columns_of(short_name(run.class_name(i))));
  measures.label_room = static_cast<double>(longest) * letter_width * measures.font / 10 + 14;
  return measures;
}

std::string cell_of(const Run& run, const EvaluationRecord::Cell& cell, int64_t samples,
                    bool counted, const MatrixMeasures& measures) {
  const double share = static_cast<double>(cell.count) / static_cast<double>(samples);
  const double side = measures.cell, gap = side > 20 ? 0.5 : 0.25;
  const double x = measures.label_room + side * static_cast<double>(cell.taken_for);
  const double y = measures.label_room + side * static_cast<double>(cell.label);
  const auto what = run.class_name(cell.label) + " taken for " + run.class_name(cell.taken_for) +
                    ": " + count_figure(cell.count) + " of " + count_figure(samples);
  std::string inner =
      element("title", {}, escaped(what)) +
      element("rect", {{"x", length_text(x + gap)},
                       {"y", length_text(y + gap)},
                       {"width", length_text(side - 2 * gap)},
                       {"height", length_text(side - 2 * gap)},
                       {"rx", side > 20 ? "3" : "1"},
                       {"fill-opacity", length_text(0.06 + 0.94 * std::sqrt(share))}});
  if (counted)
    inner += element("text",
                     {{"x", length_text(x + side / 2)},
                      {"y", length_text(y + side / 2 + 3.5)},
                      {"class", share > 0.55 ? "count strong" : "count"}},
                     std::to_string(cell.count));
  return element("g", {{"class", cell.label == cell.taken_for ? "right" : "wrong"}}, inner);
}

std::string label_at(const std::string& name, int64_t index, bool of_row,
                     const MatrixMeasures& measures) {
  const double middle = measures.label_room + measures.cell * (static_cast<double>(index) + 0.5) +
                        measures.font * 0.36;
  const auto at_cells = length_text(measures.label_room - 6), at_middle = length_text(middle);
  const auto text = element("title", {}, escaped(name)) + escaped(short_name(name));
  if (of_row) return element("text", {{"x", at_cells}, {"y", at_middle}, {"class", "row"}}, text);
  return element("text",
                 {{"transform", "translate(" + at_middle + " " + at_cells + ") rotate(-50)"},
                  {"class", "column"}},
                 text);
}

std::string matrix(const Run& run, const std::vector<ClassResult>& results) {
  const auto& record = *run.evaluation;
  const bool counted = record.num_classes <= most_counted_classes;
  std::vector<int64_t> samples(static_cast<size_t>(record.num_classes));
  for (const auto& one : results) samples[static_cast<size_t>(one.label)] = one.samples;
  const auto measures = measures_of(run);
  const double room = measures.label_room;
  const double field = measures.cell * static_cast<double>(record.num_classes);
  std::string drawn = element("rect", {{"class", "field"},
                                       {"x", length_text(room)},
                                       {"y", length_text(room)},
                                       {"width", length_text(field)},
                                       {"height", length_text(field)},
                                       {"rx", "4"}});
  for (int64_t i = 0; i < record.num_classes; ++i)
    for (const bool of_row : {false, true})
      drawn += label_at(run.class_name(i), i, of_row, measures);
  for (const auto& cell : record.confusion)
    drawn += cell_of(run, cell, samples[static_cast<size_t>(cell.label)], counted, measures);
  const double slanted_room = room * 0.65;  // of the last column's name
  const auto width = length_text(room + field + slanted_room),
             height = length_text(room + field + 4);
  return element("div", {},
                 element("h3", {}, "Rows: what it is; columns: what it is taken for") +
                     element("svg",
                             {{"class", "matrix"},
                              {"viewBox", "0 0 " + width + " " + height},
                              {"style", "max-width:" + width +
                                            "px;font-size:" + length_text(measures.font) + "px"},
                              {"role", "img"},
                              {"aria-label", "confusion matrix"}},
                             drawn));
}

std::string mixups(const Run& run) {
  auto cells = run.evaluation->confusion;
  std::erase_if(cells, [](const auto& cell) { return cell.label == cell.taken_for; });
  std::ranges::stable_sort(cells, std::ranges::greater(), &EvaluationRecord::Cell::count);
  if (cells.empty()) return "";
  cells.resize(std::min(cells.size(), most_mixups));
  std::string items;
  for (const auto& cell : cells)
    items += element("li", {},
                     element("b", {}, escaped(run.class_name(cell.label))) + " taken for " +
                         element("b", {}, escaped(run.class_name(cell.taken_for))) + " " +
                         element("span", {{"class", "faded"}}, counted(cell.count, "time")));
  return element(
      "div", {},
      element("h3", {}, "Most frequent mix-ups") + element("ol", {{"class", "mixups"}}, items));
}

nlohmann::ordered_json cells_json(const EvaluationRecord& record) {
  auto cells = nlohmann::ordered_json::array();
  for (const auto& cell : record.confusion)
    cells.push_back({cell.label, cell.taken_for, cell.count});
  return cells;
}

}  // namespace

std::string confusion_section(const Run& run) {
  if (!run.evaluation || run.evaluation->confusion.empty()) return "";
  const auto results = results_of(*run.evaluation);
  const auto bars = accuracy_bars(run, results), mixed = mixups(run);
  const auto classes = run.evaluation->num_classes;
  std::string columns = bars + mixed;
  if (classes <= most_drawn_classes)
    columns = classes > most_beside_mixups
                  ? bars + element("div", {}, matrix(run, results) + mixed)
                  : element("div", {}, bars + mixed) + matrix(run, results);
  return evaluation_note(*run.evaluation) + element("div", {{"class", "confusion"}}, columns) +
         data_element("class", "confusion-cells", cells_json(*run.evaluation));
}

}  // namespace composer
