// The page of a study.
#include "analysis/headline.h"
#include "analysis/markup.h"
#include "analysis/page_parts.h"
#include "analysis/study_charts.h"
#include "analysis/study_table.h"

namespace composer {
namespace {

std::string table_markup(const StudyTable& table) {
  if (table.rows.empty()) return "";
  std::string head, rows;
  for (const auto& heading : table.headings)
    head += element("th", {{"class", head.empty() ? "" : "number"}}, escaped(heading));
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& cells = table.rows[i];
    std::string row = element("th", {{"scope", "row"}}, escaped(cells[0]));
    for (size_t column = 1; column < cells.size(); ++column)
      row += element("td", {{"class", "number"}}, escaped(cells[column]));
    rows += element("tr", {{"class", table.marked[i] ? "beyond" : ""}}, row);
  }
  return element(
      "div", {{"class", "wide"}},
      element("table", {{"class", "study"}},
              element("thead", {}, element("tr", {}, head)) + element("tbody", {}, rows)));
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
                      element("th", {{"scope", "row"}},
                              run.has_page ? element("a", {{"href", link}}, escaped(run.name))
                                           : escaped(run.name)) +
                          element("td", {}, status_pill(run.status)) +
                          element("td", {}, escaped(run.message)));
    }
  return rows.empty() ? "" : element("div", {{"class", "wide"}}, element("table", {}, rows));
}

std::string wide_figure(const std::string& figure) {
  return figure.empty() ? "" : element("div", {{"class", "figure-row"}}, figure);
}

}  // namespace

std::string study_page(const Study& study, const std::string& runs) {
  std::string main = element(
      "header", {}, element("div", {{"class", "title"}}, element("h1", {}, escaped(study.title))));
  main += section("variants", "What each variant comes to",
                  table_markup(table_of(study)) + remark_lines(study));
  main += section("spread", "Spread over the seeds", wide_figure(spread_figure(study)));
  main += section("interactions", "What two do together beyond what each does",
                  table_markup(interaction_table_of(study)));
  if (!study.compared)
    main +=
        section("frontier", "What accuracy costs",
                wide_figure(frontier_figure(study, Cost::time)) +
                    (study.price_per_hour ? wide_figure(frontier_figure(study, Cost::money)) : ""));
  const auto course = course_figure(study);
  main +=
      section("curves", "Curves",
              course.empty() ? "" : axis_labels() + element("div", {{"class", "charts"}}, course));
  main += section("runs", "Runs", runs_table(study, runs));
  return page_of(study.title, main);
}

}  // namespace composer
