#include <array>
#include <cstdio>

#include "analysis/markup.h"
#include "analysis/trace/report_section.h"

namespace composer {
namespace {

std::string drawn_bar(double share) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "<svg width=\"160\" height=\"12\" role=\"img\" aria-label=\"%.1f %%\"><rect "
                "width=\"%.1f\" height=\"12\" rx=\"2\"/></svg>",
                100 * share, 160 * share);
  return text.data();
}

/// Markup of `text`, in which text between backticks is code.
std::string with_code(const std::string& text) {
  std::string markup;
  size_t begin = 0;
  for (size_t open; (open = text.find('`', begin)) != std::string::npos;) {
    const size_t close = text.find('`', open + 1);
    if (close == std::string::npos) break;
    markup += escaped(text.substr(begin, open - begin)) +
              element("code", {}, escaped(text.substr(open + 1, close - open - 1)));
    begin = close + 1;
  }
  return markup + escaped(text.substr(begin));
}

void append_row(std::string& page, const std::vector<std::string>& cells, size_t words,
                std::string_view tag, const std::string& last) {
  page += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    page += element(tag, i < words ? Attributes{} : Attributes{{"class", "n"}}, escaped(cells[i]));
  page += last + "</tr>\n";
}

void append(std::string& page, const ReportSection& section) {
  page += "<h2>" + escaped(section.title) + "</h2>\n";
  if (!section.note.empty()) page += "<p>" + escaped(section.note) + "</p>\n";
  page += "<div class=\"wide\"><table>\n";
  const bool bars = !section.bars.empty();
  append_row(page, section.headings, section.words, "th", bars ? "<th></th>" : "");
  for (size_t i = 0; i < section.rows.size(); ++i)
    append_row(page, section.rows[i], section.words, "td",
               bars ? "<td>" + drawn_bar(section.bars[i]) + "</td>" : "");
  page += "</table></div>\n";
}

}  // namespace

std::string page_of(const Report& report) {
  const auto title = escaped(report.title);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>\n" + std::string(trace_style()) +
      "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n";
  for (const auto& warning : report.warnings)
    page += "<p class=\"warning\">" + with_code(warning) + "</p>\n";
  if (!report.advice.empty()) page += "<h2>What would help most</h2>\n<ol>\n";
  for (const auto& advice : report.advice) page += "<li>" + with_code(advice) + "</li>\n";
  if (!report.advice.empty()) page += "</ol>\n";
  for (const auto& section : report.sections) append(page, section);
  return page + "</body>\n</html>\n";
}

}  // namespace composer
