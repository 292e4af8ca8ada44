#include <array>
#include <cstdio>

#include "analysis/markup.h"
#include "analysis/trace/report_section.h"

namespace composer {
namespace {

constexpr std::string_view page_head = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>)";

constexpr std::string_view page_style = R"(</title>
<style>
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #e0e1e6; --paper: #fff; --bar: #3e63dd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f; --paper: #18191b; --bar: #6e8bff; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th.n, td.n { text-align: right; white-space: nowrap; }
td { overflow-wrap: anywhere; }
svg { display: block; margin-top: .35rem; }
rect { fill: var(--bar); }
.warning { border-left: 3px solid #e5a000; padding-left: .6rem; }
</style>
</head>
<body>
)";

std::string drawn_bar(double share) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "<svg width=\"160\" height=\"12\" role=\"img\" aria-label=\"%.1f %%\"><rect "
                "width=\"%.1f\" height=\"12\" rx=\"2\"/></svg>",
                100 * share, 160 * share);
  return text.data();
}

/// What stands between backticks is code.
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
  std::string page(page_head);
  page +=
      escaped(report.title) + std::string(page_style) + "<h1>" + escaped(report.title) + "</h1>\n";
  for (const auto& warning : report.warnings)
    page += "<p class=\"warning\">" + with_code(warning) + "</p>\n";
  if (!report.advice.empty()) page += "<h2>What would help most</h2>\n<ol>\n";
  for (const auto& advice : report.advice) page += "<li>" + with_code(advice) + "</li>\n";
  if (!report.advice.empty()) page += "</ol>\n";
  for (const auto& section : report.sections) append(page, section);
  return page + "</body>\n</html>\n";
}

}  // namespace composer
