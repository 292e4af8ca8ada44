#include "analysis/picture_section.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "base/terminal.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t most_training_pictures = 48, most_likely_classes = 3;

/// Pictures of few pixels are shown pixel by pixel.
bool is_small(const std::string& png) {
  constexpr size_t width_at = 16;
  constexpr uint32_t widest_of_dots = 96;
  if (png.size() < width_at + 4) return false;
  uint32_t width = 0;
  for (size_t i = 0; i < 4; ++i) width = width << 8 | static_cast<unsigned char>(png[width_at + i]);
  return width <= widest_of_dots;
}

/// An <img> that holds the PNG file, or a remark if the file cannot be read.
std::string picture(const std::filesystem::path& file, const std::string& description) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (bytes.str().empty()) return element("div", {{"class", "lost"}}, "cannot be read");
  return element("img", {{"class", is_small(bytes.str()) ? "small" : "large"},
                         {"src", "data:image/png;base64," + base64(bytes.str())},
                         {"alt", description}});
}

/// The filled part of a meter.
std::string meter(double share) {
  return element("span", {{"style", "width:" + length_text(share * 100) + "%"}}, "");
}

std::string likely_class(const Run& run, int64_t index, double probability, int64_t label) {
  const double drawn = std::isfinite(probability) ? probability : 0;
  return element("li", {{"class", index == label ? "right" : "wrong"}},
                 element("span", {{"class", "name"}, {"title", run.class_name(index)}},
                         escaped(run.class_name(index))) +
                     element("span", {{"class", "meter"}}, meter(drawn)) +
                     element("span", {{"class", "number"}}, percent_figure(probability)));
}

/// The sample's name and number in its data set; empty if unknown.
std::string sample_line(const EvaluationRecord::Wrong& wrong) {
  const auto text = wrong.sample ? sample_text(wrong.path, *wrong.sample) : wrong.path;
  return text.empty() ? "" : element("small", {{"class", "faded"}}, escaped(text));
}

std::string wrong_picture(const Run& run, const EvaluationRecord::Wrong& wrong) {
  std::string likely;
  bool named = false;
  for (size_t i = 0; i < std::min(wrong.likely.size(), most_likely_classes); ++i) {
    const auto& [index, probability] = wrong.likely[i];
    named = named || index == wrong.label;
    likely += likely_class(run, index, probability, wrong.label);
  }
  if (!named) likely += likely_class(run, wrong.label, wrong.probability, wrong.label);
  const auto name = run.class_name(wrong.label);
  return element("figure", {},
                 picture(run.folder / wrong.image, name) +
                     element("figcaption", {},
                             element("div", {},
                                     element("b", {{"title", name}}, escaped(name)) +
                                         element("small", {}, "loss " + figure(wrong.loss, 3))) +
                                 element("ol", {}, likely) + sample_line(wrong)));
}

constexpr int64_t most_drawn_classes = 40, most_counted_classes = 20, most_bars = 40,
                  most_beside_mixups = 14;
constexpr size_t most_mixups = 10;

struct ClassResult {
  int64_t label, samples = 0, hits = 0;
  double accuracy() const { return static_cast<double>(hits) / static_cast<double>(samples); }
};

/// The classes that have samples.
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
    rows += element("tr", {},
                    row_heading(escaped(run.class_name(one.label))) +
                        element("td", {{"class", "meter"}}, meter(one.accuracy())) +
                        number_cell(percent_figure(one.accuracy())) +
                        element("td", {{"class", "number faded"}},
                                count_figure(one.hits) + " of " + count_figure(one.samples)));
  const auto title = cut ? "The " + std::to_string(most_bars) + " classes it does worst on"
                         : std::string("Accuracy by class, worst first");
  return element("div", {},
                 element("h3", {}, title) + element("table", {{"class", "meters"}}, rows));
}

/// Lengths in units of the drawing, which are about pixels whatever the number of classes.
constexpr double widest_cell = 42, widest_field = 520, letter_width = 6.2;
constexpr int64_t most_letters = 18;

struct MatrixMeasures {
  double cell, font, label_room;  ///< label_room: width left of the cells and height above them
};

MatrixMeasures measures_of(const Run& run) {
  const auto classes = run.evaluation->num_classes;
  MatrixMeasures measures{};
  measures.cell = std::min(widest_cell, widest_field / static_cast<double>(classes));
  measures.font = std::min(10.5, measures.cell * 0.8);
  int64_t longest = 0;
  for (int64_t i = 0; i < classes; ++i)
    longest = std::max(longest, columns_of(shortened(run.class_name(i), most_letters)));
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
  const auto text = element("title", {}, escaped(name)) + escaped(shortened(name, most_letters));
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
  const double slanted_room = room * 0.65;  // for the last column's label
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

/// The epoch and the step of the evaluation's record, and whether it covers all ranks.
std::string evaluation_note(const EvaluationRecord& record) {
  return element("p", {{"class", "faded"}},
                 "After epoch " + count_figure(record.epoch) + ", step " +
                     count_figure(record.batch) +
                     (record.all_ranks ? "." : "; of what the first rank evaluated."));
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? letters[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string training_pictures(const Run& run) {
  std::string grid;
  for (size_t i = 0; i < std::min(run.training_images.size(), most_training_pictures); ++i) {
    const auto& image = run.training_images[i];
    const auto caption =
        image.caption.empty() ? "" : element("figcaption", {}, escaped(image.caption));
    grid += element("figure", {}, picture(run.folder / image.file, image.caption) + caption);
  }
  return grid.empty() ? "" : element("div", {{"class", "pictures"}}, grid);
}

std::string wrong_pictures(const Run& run) {
  if (!run.evaluation || run.evaluation->wrong.empty()) return "";
  std::string grid;
  for (const auto& wrong : run.evaluation->wrong) grid += wrong_picture(run, wrong);
  return evaluation_note(*run.evaluation) + element("div", {{"class", "pictures wrongs"}}, grid);
}

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
  auto cells = nlohmann::ordered_json::array();
  for (const auto& cell : run.evaluation->confusion)
    cells.push_back({cell.label, cell.taken_for, cell.count});
  return evaluation_note(*run.evaluation) + element("div", {{"class", "confusion"}}, columns) +
         data_element("class", "confusion-cells", cells);
}

}  // namespace composer
