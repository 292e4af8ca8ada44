// The results of a study: a table and sentences, and the page.
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/figure_text.h"
#include "analysis/line_chart.h"
#include "analysis/markup.h"
#include "analysis/report.h"
#include "analysis/study.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// Formats values of the study's metric, all with the same number of digits.
class MetricText {
 public:
  explicit MetricText(const Study& study) : share_(is_share(study.metric)) {
    double largest = 0;
    for (const auto& variant : study.variants)
      if (const double mean = figures_of(variant).metric.mean; std::isfinite(mean))
        largest = std::max(largest, std::abs(mean));
    if (!share_) decimals_ = decimals_for(largest);
  }

  std::string value(double value) const {
    return share_ && std::isfinite(value) ? plain(value) + " %" : plain(value);
  }
  std::string with_spread(const Repeats& repeats) const {
    if (repeats.count == 0) return "-";
    if (repeats.count == 1 || !std::isfinite(repeats.deviation)) return value(repeats.mean);
    return plain(repeats.mean) + " ± " + plain(repeats.deviation) + (share_ ? " %" : "");
  }
  /// The difference with its sign; for shares in percentage points.
  std::string difference(const Contrast& contrast) const {
    if (std::isnan(contrast.value)) return "-";
    auto text = (contrast.value >= 0 ? "+" : "") + plain(contrast.value);
    if (contrast.margin) text += " ± " + plain(*contrast.margin);
    return text + (share_ ? " pp" : "");
  }

 private:
  std::string plain(double value) const {
    constexpr double too_many_digits = 1e7;
    if (!std::isfinite(value) || std::abs(value) >= too_many_digits) return figure(value);
    return decimal_figure(share_ ? value * 100 : value, decimals_);
  }

  bool share_;
  int decimals_ = 2;
};

std::string whole_count(double mean) { return count_figure(std::llround(mean)); }

std::string verdict(const Contrast& contrast) {
  const auto beyond = contrast.beyond_noise();
  if (std::isnan(contrast.value)) return "-";
  return !beyond ? "unknown" : *beyond ? "yes" : "no";
}

std::string target_text(const StudyTarget& target) {
  return metric_label(target.metric) + " " +
         (is_share(target.metric) ? figure(target.value * 100) + " %" : figure(target.value));
}

/// The mean over the runs that met the target, and how many of the completed runs did.
std::string to_target(const Repeats& repeats, const VariantFigures& figures, const auto& text) {
  if (figures.seconds.count == 0) return "-";
  if (repeats.count == 0) return "not met";
  auto cell = text(repeats.mean);
  if (repeats.count < figures.seconds.count)
    cell +=
        " (" + std::to_string(repeats.count) + " of " + std::to_string(figures.seconds.count) + ")";
  return cell;
}

bool any_repeated(const Study& study) {
  return std::ranges::any_of(study.variants,
                             [](const auto& variant) { return variant.runs.size() > 1; });
}

/// The mark behind the times of a variant with a disturbed run; empty otherwise.
std::string mark_of(const Variant& variant) {
  return std::ranges::any_of(variant.runs, &StudyRun::disturbed) ? "*" : "";
}

/// The meaning of the mark; empty if no variant has it.
std::string disturbance_of(const Study& study) {
  double most = 0;
  for (const auto& variant : study.variants)
    for (const auto& run : variant.runs)
      if (run.disturbed()) most = std::max(most, run.others_share);
  return most == 0 ? ""
                   : "*: the machine was busy meanwhile: " + others_text(most) +
                         " of a run; alone it would be faster";
}

bool any_done(const Study& study) {
  return std::ranges::any_of(study.variants, [](const auto& variant) {
    return std::ranges::any_of(variant.runs, &StudyRun::done);
  });
}

/// The second best of the variants that were trained for as long as the best.
std::optional<size_t> next_best(const Study& study) {
  std::optional<size_t> next;
  for (size_t i = 0; i < study.variants.size(); ++i) {
    if (i == *study.best || study.variants[i].round != study.variants[*study.best].round) continue;
    if (!has_result(study, i)) continue;
    const auto mean = [&](size_t variant) {
      return figures_of(study.variants[variant]).metric.mean;
    };
    if (!next || improves(study.metric, mean(i), mean(*next))) next = i;
  }
  return next;
}

std::string text_of(const StudyTable& table) {
  const auto widths = column_widths(table.headings, table.rows);
  std::string text = table_line(table.headings, widths) + "\n";
  for (const auto& row : table.rows) text += table_line(row, widths) + "\n";
  return text;
}

constexpr size_t colors = 8;
constexpr int64_t most_name_columns = 34;

std::string dot_at(double x, double y, double radius, const std::string& title,
                   const std::string& style = "") {
  Attributes attributes{{"cx", length_text(x)}, {"cy", length_text(y)}, {"r", length_text(radius)}};
  if (!style.empty()) attributes.emplace_back("style", style);
  return element("circle", attributes, element("title", {}, escaped(title)));
}

LineChart metric_chart(const Study& study) {
  LineChart chart;
  chart.title = metric_label(study.metric);
  chart.figures = is_share(study.metric) ? Figures::share : Figures::plain;
  return chart;
}

/// A chart of `values` of the study's metric, from which its axis is made.
LineChart chart_of(const Study& study, const std::vector<double>& values) {
  auto chart = metric_chart(study);
  Curve curve{study.metric, {}};
  for (const double value : values) curve.points.push_back({0, 0, 0, value});
  chart.lines.push_back({"", 0, true, false, curve});
  return chart;
}

/// Half of the 95 % interval of the mean; 0 if unknown.
double margin_of(const Repeats& repeats) {
  const std::pair<double, Repeats> alone[]{{1.0, repeats}};
  return contrast_of(alone).margin.value_or(0);
}

std::string table_markup(const StudyTable& table) {
  if (table.rows.empty()) return "";
  std::string head, rows;
  for (const auto& heading : table.headings)
    head += element("th", {{"class", head.empty() ? "" : "number"}}, escaped(heading));
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& cells = table.rows[i];
    std::string row = row_heading(escaped(cells[0]));
    for (size_t column = 1; column < cells.size(); ++column)
      row += number_cell(escaped(cells[column]));
    rows += element("tr", {{"class", table.marked[i] ? "beyond" : ""}}, row);
  }
  return wide_table("study", head, rows);
}

std::string remark_lines(const Study& study) {
  std::string lines;
  for (const auto& remark : remarks_of(study))
    lines += element("p", {{"class", "faded"}}, escaped(remark));
  return lines;
}

std::string runs_table(const Study& study, const std::string& runs) {
  std::string rows;
  for (const auto& variant : study.variants)
    for (const auto& run : variant.runs) {
      const auto link = runs + "/" + run.name + "/report.html";
      rows += element("tr", {},
                      row_heading(run.has_page ? element("a", {{"href", link}}, escaped(run.name))
                                               : escaped(run.name)) +
                          element("td", {}, status_pill(run.status)) +
                          element("td", {}, escaped(run.message)));
    }
  return rows.empty() ? "" : element("div", {{"class", "wide"}}, element("table", {}, rows));
}

std::string wide_figure(const std::string& figure) {
  return figure.empty() ? "" : element("div", {{"class", "figure-row"}}, figure);
}

/// A row per variant: its runs' metric as dots, the mean and its 95 % interval. Empty if no run is
/// completed.
std::string spread_figure(const Study& study) {
  std::vector<double> values;
  for (const auto& variant : study.variants) {
    for (const auto& run : variant.runs)
      if (run.done() && run.metric && std::isfinite(*run.metric)) values.push_back(*run.metric);
    const auto repeats = figures_of(variant).metric;
    if (repeats.count > 1 && std::isfinite(repeats.mean))
      for (const double sign : {-1, 1})
        values.push_back(repeats.mean + sign * std::min(margin_of(repeats), 3 * repeats.deviation));
  }
  if (values.empty()) return "";
  const auto chart = chart_of(study, values);
  const auto axis = values_axis(chart);
  constexpr double width = 960, row = 26, top = 6;
  const PlotArea area{220, 940, top, top + row * static_cast<double>(study.variants.size())};
  const auto across = [&](double value) { return area.x(axis.place(value)); };
  std::string drawn;
  for (const double tick : axis.ticks()) {
    drawn += path_element("grid", "M" + length_text(across(tick)) + " " + length_text(top) + "V" +
                                      length_text(area.bottom));
    drawn += text_at(across(tick), area.bottom + 16, "course", value_tick(chart, axis, tick));
  }
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto& variant = study.variants[i];
    const double y = top + row * (static_cast<double>(i) + 0.5);
    drawn += text_at(area.left - 10, y, "value", shortened(variant.name, most_name_columns));
    const auto repeats = figures_of(variant).metric;
    std::string marks;
    if (repeats.count > 1 && std::isfinite(repeats.mean)) {
      const double margin = margin_of(repeats), x = across(repeats.mean);
      marks += path_element("line", "M" + length_text(across(repeats.mean - margin)) + " " +
                                        length_text(y) + "H" +
                                        length_text(across(repeats.mean + margin)));
      marks += path_element("line", "M" + length_text(x) + " " + length_text(y - 7) + "v14");
    }
    for (const auto& run : variant.runs)
      if (run.done() && run.metric && std::isfinite(*run.metric))
        marks += dot_at(across(*run.metric), y, 3.4,
                        "seed " + std::to_string(run.seed) + ": " +
                            metric_figure(study.metric, *run.metric, decimals_for(*run.metric)),
                        "fill-opacity:.55");
    drawn +=
        element("g", {{"class", "c" + std::to_string(i == 0 && study.compared ? 1 : 0)}}, marks);
  }
  drawn += area.base();
  return chart_figure(chart.title, "a dot a seed; mean and its 95 % interval",
                      chart.title + " of each variant", width, area.bottom + 22, drawn);
}

enum class CostKind { time, money };
/// The metric against time or price, with the frontier (frontier_of). A dot is a variant's mean;
/// series are lines. Empty for fewer than two variants with results.
std::string frontier_figure(const Study& study, CostKind cost) {
  struct Place {
    size_t variant;
    double x, y;
  };
  const double price = cost == CostKind::money ? study.price_per_hour.value_or(0) / 3600 : 1;
  std::vector<Place> places;
  std::vector<double> values, costs;
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto figures = figures_of(study.variants[i]);
    if (figures.metric.count == 0 || !std::isfinite(figures.metric.mean)) continue;
    places.push_back({i, figures.seconds.mean * price, figures.metric.mean});
    costs.push_back(places.back().x), values.push_back(places.back().y);
  }
  if (places.size() < 2) return "";
  const auto chart = chart_of(study, values);
  const auto up_axis = values_axis(chart);
  const double most = *std::ranges::max_element(costs);
  const TimeUnitOfAxis unit =
      cost == CostKind::time ? time_unit_for(most) : TimeUnitOfAxis{"cost", 1.0};
  const auto across_axis = Axis::linear(0, most / unit.seconds);
  constexpr double width = 960, height = 330;
  constexpr PlotArea area{60, 930, 12, 286};
  const auto across = [&](double x) { return area.x(across_axis.place(x / unit.seconds)); };
  const auto up = [&](double y) { return area.y(up_axis.place(y)); };
  std::string drawn =
      area.value_grid(up_axis, 8, [&](double tick) { return value_tick(chart, up_axis, tick); });
  for (const double tick : across_axis.ticks())
    drawn += text_at(across(tick * unit.seconds), area.bottom + 16, "course",
                     tick_figure(tick, across_axis.high()));
  drawn += text_at(area.middle(), height - 6, "course unit", unit.name);
  drawn += area.base();

  std::map<std::string, size_t> series;
  std::map<std::string, std::vector<Place>> lines;
  for (const auto& place : places) {
    const auto& name = study.variants[place.variant].series;
    series.emplace(name, series.size());
    lines[name].push_back(place);
  }
  const auto line_of = [&](std::vector<Place> line) {
    std::ranges::stable_sort(line, {}, &Place::x);
    std::string d;
    for (const auto& place : line)
      d += (d.empty() ? "M" : "L") + length_text(across(place.x)) + " " + length_text(up(place.y));
    return d;
  };
  const auto frontier = frontier_of(study);
  std::vector<Place> best;
  for (const auto& place : places)
    if (std::ranges::count(frontier, place.variant) > 0) best.push_back(place);
  drawn += element("path", {{"class", "pointer"}, {"style", "fill:none"}, {"d", line_of(best)}});
  for (const auto& [name, line] : lines) {
    std::string marks;
    if (!name.empty() && line.size() > 1) marks += path_element("line faint", line_of(line));
    for (const auto& place : line) {
      const auto& variant = study.variants[place.variant].name;
      const bool leads = std::ranges::count(frontier, place.variant) > 0;
      marks += dot_at(across(place.x), up(place.y), leads ? 5 : 3.4, variant);
      if (leads)
        marks += element(
            "text",
            {{"x", length_text(across(place.x) - 8)},
             {"y", length_text(up(place.y) - 8)},
             {"style", across(place.x) > area.middle() ? "text-anchor:end" : "text-anchor:start"}},
            escaped(shortened(variant, most_name_columns)));
    }
    drawn += element("g", {{"class", "c" + std::to_string(series[name] % colors)}}, marks);
  }
  const std::string against = cost == CostKind::time ? " against time" : " against cost";
  return chart_figure(
      chart.title + against,
      "large dots: no other variant is as good in as little; the dashed line joins them",
      chart.title + against, width, height, drawn);
}

/// The metric over the first completed run of each of the first eight variants.
LineChart course_chart(const Study& study) {
  auto chart = metric_chart(study);
  chart.note = "the first seed of each variant";
  chart.named = true;
  for (const auto& variant : study.variants) {
    if (chart.lines.size() == colors) {
      chart.note += "; of the first eight variants";
      break;
    }
    const auto run = std::ranges::find_if(variant.runs, &StudyRun::done);
    if (run != variant.runs.end())
      chart.lines.push_back(
          {variant.name, static_cast<int>(chart.lines.size()), true, false, run->curve});
  }
  return chart;
}

}  // namespace

StudyTable table_of(const Study& study) {
  const MetricText text(study);
  const bool rounds = std::ranges::any_of(
      study.variants, [](const auto& variant) { return !variant.round.empty(); });
  StudyTable table;
  table.headings = {""};
  if (rounds) table.headings.emplace_back("round");
  table.headings.push_back(metric_label(study.metric));
  if (study.compared) {
    table.headings.emplace_back("difference");
    table.headings.emplace_back("beyond noise");
  }
  table.headings.insert(table.headings.end(), {"time", "images/s"});
  if (study.target)
    table.headings.insert(table.headings.end(), {"images to target", "time to target"});
  table.headings.emplace_back("peak memory");
  if (study.price_per_hour) table.headings.emplace_back("cost");
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto& variant = study.variants[i];
    const auto figures = figures_of(variant);
    const auto contrast = study.compared && i > 0 ? difference_of(study, i) : Contrast{NAN, {}};
    std::vector<std::string> cells{variant.name};
    if (rounds) cells.push_back(variant.round);
    cells.push_back(variant.impossible.empty() ? text.with_spread(figures.metric) : "not possible");
    if (study.compared) {
      cells.push_back(i == 0 ? "" : text.difference(contrast));
      cells.push_back(i == 0 ? "" : verdict(contrast));
    }
    const bool any = figures.seconds.count > 0;
    const auto mark = mark_of(variant);
    const auto marked_duration = [&](double seconds) { return duration_figure(seconds) + mark; };
    cells.push_back(any ? marked_duration(figures.seconds.mean) : "-");
    cells.push_back(
        figures.images_per_second.count > 0 ? figure(figures.images_per_second.mean) + mark : "-");
    if (study.target) {
      cells.push_back(to_target(figures.samples_to_target, figures, whole_count));
      cells.push_back(to_target(figures.seconds_to_target, figures, marked_duration));
    }
    cells.push_back(figures.peak_memory_bytes ? bytes_figure(*figures.peak_memory_bytes) : "-");
    if (study.price_per_hour)
      cells.push_back(any ? decimal_figure(*study.price_per_hour * figures.seconds.mean / 3600, 2) +
                                mark
                          : "-");
    table.rows.push_back(std::move(cells));
    table.marked.push_back(contrast.beyond_noise().value_or(false));
  }
  return table;
}

StudyTable interaction_table_of(const Study& study) {
  const MetricText text(study);
  StudyTable table{{"", "interaction", "beyond noise"}, {}, {}};
  for (const auto& interaction : study.interactions) {
    const auto contrast = contrast_of(study, interaction);
    table.rows.push_back({interaction.name, text.difference(contrast), verdict(contrast)});
    table.marked.push_back(contrast.beyond_noise().value_or(false));
  }
  return table;
}

std::vector<std::string> remarks_of(const Study& study) {
  std::vector<std::string> remarks;
  if (any_done(study) && any_repeated(study))
    remarks.push_back(metric_label(study.metric) +
                      ": mean ± standard deviation over the seeds, at the end of training");
  if (study.compared && !any_repeated(study))
    remarks.emplace_back(
        "with one seed the noise is unknown, and any difference may be chance; give --seeds 3");
  else if (study.compared)
    remarks.push_back("difference: to '" + study.variants[0].name +
                      "', ± half of its 95 % interval (Welch's t); beyond noise: the interval "
                      "excludes 0, as 1 in 20 do by chance that make no difference");
  if (study.compared && is_share(study.metric)) remarks.emplace_back("pp: percentage points");
  if (study.target) remarks.push_back("target: " + target_text(*study.target));
  if (auto disturbance = disturbance_of(study); !disturbance.empty())
    remarks.push_back(std::move(disturbance));
  remarks.insert(remarks.end(), study.notes.begin(), study.notes.end());
  for (const auto& variant : study.variants) {
    if (!variant.impossible.empty())
      remarks.push_back(variant.name + ": not possible: " + variant.impossible);
    for (const auto& run : variant.runs)
      if (!run.done())
        remarks.push_back(run.name + ": " + run.status +
                          (run.message.empty() ? "" : ": " + run.message));
  }
  return remarks;
}

std::string text_of(const Study& study) {
  std::string text = text_of(table_of(study));
  if (!study.interactions.empty()) text += "\n" + text_of(interaction_table_of(study));
  text += "\n";
  for (const auto& remark : remarks_of(study)) text += remark + "\n";
  return text;
}

std::optional<std::string> note_on_best(const Study& study) {
  const auto next = next_best(study);
  if (!next) return {};
  const auto contrast = difference_of(figures_of(study.variants[*study.best]).metric,
                                      figures_of(study.variants[*next]).metric);
  const auto beyond = contrast.beyond_noise();
  return "the best and the next, " + study.variants[*next].name + ", differ by " +
         figure(contrast.value, 3) +
         (contrast.margin ? " ± " + figure(*contrast.margin, 3) + " (95 %, Welch's t): " +
                                (*beyond ? "beyond" : "within") + " the noise"
                          : ": the noise is unknown");
}

std::vector<std::string> notes_on_runs(const Study& study) {
  std::vector<std::string> notes;
  int64_t shared = 0, most = 1, runs = 0;
  for (const auto& variant : study.variants)
    for (const auto& run : variant.runs)
      ++runs, shared += run.jobs > 1, most = std::max(most, run.jobs);
  if (shared > 0)
    notes.push_back(
        "times and images/s" +
        (shared < runs ? " of " + std::to_string(shared) + " of the " + counted(runs, "run")
                       : std::string()) +
        ": with up to " + std::to_string(most) + " trainings at a time on this machine (--jobs)");
  for (const auto& variant : study.variants) {
    const auto figures = figures_of(variant);
    if (figures.failed > 0 && figures.metric.count > 0)
      notes.push_back(variant.name + ": " + std::to_string(figures.failed) + " of " +
                      std::to_string(variant.runs.size()) +
                      " runs failed; its figures are those of the others");
  }
  return notes;
}

std::string study_page(const Study& study, const std::string& runs) {
  std::string main = element(
      "header", {}, element("div", {{"class", "title"}}, element("h1", {}, escaped(study.title))));
  main += section("variants", "Results of each variant",
                  table_markup(table_of(study)) + remark_lines(study));
  main += section("spread", "Spread over the seeds", wide_figure(spread_figure(study)));
  main += section("interactions", "What two do together beyond what each does",
                  table_markup(interaction_table_of(study)));
  if (!study.compared)
    main += section(
        "frontier", "What accuracy costs",
        wide_figure(frontier_figure(study, CostKind::time)) +
            (study.price_per_hour ? wide_figure(frontier_figure(study, CostKind::money)) : ""));
  const auto course = figures_of({course_chart(study)});
  main += section("curves", "Curves", course.empty() ? "" : axis_labels() + course);
  main += section("runs", "Runs", runs_table(study, runs));
  return page_of(study.title, main);
}

}  // namespace composer
