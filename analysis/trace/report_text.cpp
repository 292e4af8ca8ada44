#include <algorithm>
#include <array>
#include <cstdio>

#include "analysis/figure_text.h"
#include "analysis/trace/report_section.h"
#include "base/terminal.h"

namespace composer {
namespace {

constexpr int64_t kGap = 2, kLeastWords = 12, kName = 34;

/// Narrows the columns of words until the table fits, the last of them first, since the first names
/// the row.
void fit(std::vector<int64_t>& widths, size_t words, int64_t columns) {
  int64_t all = kGap * (std::ssize(widths) - 1);
  for (const int64_t width : widths) all += width;
  for (const int64_t least_name : {kName, kLeastWords})
    for (size_t i = words; i-- > 0;) {
      const int64_t least = i == 0 ? least_name : kLeastWords;
      if (all <= columns || widths[i] <= least) continue;
      const int64_t taken = std::min(all - columns, widths[i] - least);
      widths[i] -= taken, all -= taken;
    }
}

/// `text` with control characters, which could steer a terminal, written as "\x1b".
std::string printable(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    const bool wide = letter == 0xc2 && i + 1 < text.size() &&  // U+0080 to U+009F
                      static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (!wide && letter >= 0x20 && letter != 0x7f) {
      result += text[i];
      continue;
    }
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\x%02x",
                  static_cast<unsigned char>(wide ? text[++i] : text[i]));
    result += escape.data();
  }
  return result;
}

ReportSection printable(ReportSection section) {
  section.note = printable(section.note);
  for (auto& row : section.rows)
    for (auto& text : row) text = printable(text);
  return section;
}

/// A line of the table; a cell that is cut ends in "..".
std::string fitted_line(std::vector<std::string> cells, const std::vector<int64_t>& widths,
                        size_t words) {
  for (size_t i = 0; i < cells.size(); ++i)
    if (columns_of(cells[i]) > widths[i]) cells[i] = first_columns(cells[i], widths[i] - 2) + "..";
  return table_line(cells, widths, words);
}

std::string block_bar(double share, int64_t columns) {
  std::string text = "  ";
  for (int64_t i = 0; i < static_cast<int64_t>(share * static_cast<double>(columns) + 0.5); ++i)
    text += "\u2588";
  return text;
}

void append_wrapped(std::string& text, const std::string& words, int64_t columns,
                    const std::string& indent) {
  int64_t used = 0;
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.compare(end, 2, " %") == 0) end = std::min(words.find(' ', end + 2), words.size());
    const auto word = words.substr(at, end - at);
    const int64_t width = columns_of(word);
    if (used > 0 && used + 1 + width > columns)
      text += "\n" + indent, used = std::ssize(indent);
    else if (used > 0)
      text += ' ', ++used;
    text += word;
    used += width;
    at = end + 1;
  }
  text += '\n';
}

void append(std::string& text, const ReportSection& section, int64_t columns) {
  auto widths = column_widths(section.headings, section.rows);
  const int64_t bar_columns = columns < 100 ? 12 : 20;
  const bool bars = !section.bars.empty();
  fit(widths, section.words, bars ? columns - bar_columns - kGap : columns);
  text += "\n" + section.title + "\n";
  if (!section.note.empty()) append_wrapped(text, section.note, columns, "");
  text += fitted_line(section.headings, widths, section.words) + "\n";
  for (size_t i = 0; i < section.rows.size(); ++i) {
    text += fitted_line(section.rows[i], widths, section.words);
    if (bars && section.bars[i] > 0.5 / static_cast<double>(bar_columns))
      text += block_bar(section.bars[i], bar_columns);
    text += '\n';
  }
}

}  // namespace

std::string text_of(const Report& report, int64_t columns) {
  std::string text = report.title + "\n";
  for (const auto& section : report.sections) append(text, printable(section), columns);
  if (!report.advice.empty()) text += "\nWhat would help most\n";
  for (size_t i = 0; i < report.advice.size(); ++i)
    append_wrapped(text, std::to_string(i + 1) + ". " + printable(report.advice[i]), columns,
                   "   ");
  return text;
}

}  // namespace composer
