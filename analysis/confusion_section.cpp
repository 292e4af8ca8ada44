#include "analysis/confusion_section.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "composer/logging/terminal.h"

namespace composer {
namespace {

constexpr int64_t most_drawn_classes = 40, most_counted_classes = 16, most_bars = 40;
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
                    std::to_string(one.hits) + " of " + std::to_string(one.samples)));
  const auto title = cut ? "The " + std::to_string(most_bars) + " classes it does worst on"
                         : std::string("Accuracy by class, worst first");
  return element("div", {},
                 element("h3", {}, title) + element("table", {{"class", "meters"}}, rows));
}

/// The drawing's measures, in its units.
constexpr double cell_side = 30, letter_width = 5.5, most_label_room = 110;

/// What names of the classes take beside the cells.
double label_room_of(const Run& run) {
  double longest = 0;
  for (int64_t i = 0; i < run.evaluation->num_classes; ++i)
    longest = std::max(longest, static_cast<double>(columns_of(run.class_name(i))));
  return std::min(longest * letter_width + 14, most_label_room);
}

std::string cell_of(const Run& run, const EvaluationRecord::Cell& cell, int64_t samples,
                    bool counted, double label_room) {
  const double share = static_cast<double>(cell.count) / static_cast<double>(samples);
  const double x = label_room + cell_side * static_cast<double>(cell.taken_for);
  const double y = label_room + cell_side * static_cast<double>(cell.label);
  const auto what = run.class_name(cell.label) + " taken for " + run.class_name(cell.taken_for) +
                    ": " + std::to_string(cell.count) + " of " + std::to_string(samples);
  std::string inner =
      element("title", {}, escaped(what)) +
      element("rect", {{"x", length_text(x + 0.5)},
                       {"y", length_text(y + 0.5)},
                       {"width", length_text(cell_side - 1)},
                       {"height", length_text(cell_side - 1)},
                       {"rx", "3"},
                       {"fill-opacity", length_text(0.06 + 0.94 * std::sqrt(share))}});
  if (counted)
    inner += element("text",
                     {{"x", length_text(x + cell_side / 2)},
                      {"y", length_text(y + cell_side / 2 + 3.5)},
                      {"class", share > 0.35 ? "count strong" : "count"}},
                     std::to_string(cell.count));
  return element("g", {{"class", cell.label == cell.taken_for ? "right" : "wrong"}}, inner);
}

std::string label_at(const std::string& text, double place, bool of_row, double label_room) {
  const double middle = label_room + cell_side * (place + 0.5) + 4;
  if (of_row)
    return element(
        "text", {{"x", length_text(label_room - 8)}, {"y", length_text(middle)}, {"class", "row"}},
        escaped(text));
  return element("text",
                 {{"transform", "translate(" + length_text(middle) + " " +
                                    length_text(label_room - 8) + ") rotate(-50)"},
                  {"class", "column"}},
                 escaped(text));
}

std::string matrix(const Run& run, const std::vector<ClassResult>& results) {
  const auto& record = *run.evaluation;
  const bool counted = record.num_classes <= most_counted_classes;
  std::vector<int64_t> samples(static_cast<size_t>(record.num_classes));
  for (const auto& one : results) samples[static_cast<size_t>(one.label)] = one.samples;
  const double label_room = label_room_of(run);
  const double field = cell_side * static_cast<double>(record.num_classes);
  std::string drawn = element("rect", {{"class", "field"},
                                       {"x", length_text(label_room)},
                                       {"y", length_text(label_room)},
                                       {"width", length_text(field)},
                                       {"height", length_text(field)},
                                       {"rx", "4"}});
  for (int64_t i = 0; i < record.num_classes; ++i)
    for (const bool of_row : {false, true})
      drawn += label_at(run.class_name(i), static_cast<double>(i), of_row, label_room);
  for (const auto& cell : record.confusion)
    drawn += cell_of(run, cell, samples[static_cast<size_t>(cell.label)], counted, label_room);
  const double slanted_room = label_room * 0.6;  // of the last column's name
  const auto width = length_text(label_room + field + slanted_room),
             height = length_text(label_room + field + 4);
  return element("div", {},
                 element("h3", {}, "Rows: what it is; columns: what it is taken for") +
                     element("svg",
                             {{"class", "matrix"},
                              {"viewBox", "0 0 " + width + " " + height},
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
    items +=
        element("li", {},
                element("b", {}, escaped(run.class_name(cell.label))) + " taken for " +
                    element("b", {}, escaped(run.class_name(cell.taken_for))) + " " +
                    element("span", {{"class", "faded"}}, std::to_string(cell.count) + " times"));
  return element(
      "div", {},
      element("h3", {}, "Most frequent mix-ups") + element("ol", {{"class", "mixups"}}, items));
}

std::string cells_json(const EvaluationRecord& record) {
  auto cells = nlohmann::json::array();
  for (const auto& cell : record.confusion)
    cells.push_back({cell.label, cell.taken_for, cell.count});
  return cells.dump();
}

}  // namespace

std::string confusion_section(const Run& run) {
  if (!run.evaluation || run.evaluation->confusion.empty()) return "";
  const auto results = results_of(*run.evaluation);
  std::string parts = element("div", {}, accuracy_bars(run, results) + mixups(run));
  if (run.evaluation->num_classes <= most_drawn_classes) parts += matrix(run, results);
  return element("div", {{"class", "confusion"}}, parts) +
         element("script", {{"type", "application/json"}, {"class", "confusion-cells"}},
                 cells_json(*run.evaluation));
}

}  // namespace composer
