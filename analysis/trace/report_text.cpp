#include <algorithm>
#include <array>
#include <cstdio>

#include "analysis/trace/report_section.h"
#include "base/terminal.h"

namespace composer {
namespace {

constexpr size_t kGap = 2, kLeastWords = 12, kName = 34;

std::vector<size_t> widths_of(const ReportSection& section) {
  std::vector<size_t> widths;
  for (const auto& heading : section.headings)
    widths.push_back(static_cast<size_t>(columns_of(heading)));
  for (const auto& row : section.rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], static_cast<size_t>(columns_of(row[i])));
  return widths;
}

/// Takes what does not fit from the columns of words, the last of them first: the first one names
/// the row.
void fit(std::vector<size_t>& widths, size_t words, size_t columns) {
  size_t all = kGap * (widths.size() - 1);
  for (const size_t width : widths) all += width;
  for (const size_t least_name : {kName, kLeastWords})
    for (size_t i = words; i-- > 0;) {
      const size_t least = i == 0 ? least_name : kLeastWords;
      if (all <= columns || widths[i] <= least) continue;
      const size_t taken = std::min(all - columns, widths[i] - least);
      widths[i] -= taken, all -= taken;
    }
}

/// Without what would move a terminal's cursor or change its colours: control characters as "\x1b".
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

/// Exactly so wide; what is cut ends in "..".
std::string cell(const std::string& text, size_t width, bool is_word) {
  const auto own = static_cast<size_t>(columns_of(text));
  if (own > width) return first_columns(text, static_cast<int64_t>(width) - 2) + "..";
  const std::string space(width - own, ' ');
  return is_word ? text + space : space + text;
}

std::string table_line(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                       size_t words) {
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i)
    text += (i == 0 ? "" : "  ") + cell(cells[i], widths[i], i < words);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string block_bar(double share, size_t columns) {
  std::string text = "  ";
  for (size_t i = 0; i < static_cast<size_t>(share * static_cast<double>(columns) + 0.5); ++i)
    text += "\u2588";
  return text;
}

void append_wrapped(std::string& text, const std::string& words, size_t columns,
                    const std::string& indent) {
  size_t used = 0;
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.compare(end, 2, " %") == 0) end = std::min(words.find(' ', end + 2), words.size());
    const auto word = words.substr(at, end - at);
    const auto width = static_cast<size_t>(columns_of(word));
    if (used > 0 && used + 1 + width > columns)
      text += "\n" + indent, used = indent.size();
    else if (used > 0)
      text += ' ', ++used;
    text += word;
    used += width;
    at = end + 1;
  }
  text += '\n';
}

void append(std::string& text, const ReportSection& section, size_t columns) {
  auto widths = widths_of(section);
  const size_t bar_columns = columns < 100 ? 12 : 20;
  const bool bars = !section.bars.empty();
  fit(widths, section.words, bars ? columns - bar_columns - kGap : columns);
  text += "\n" + section.title + "\n";
  if (!section.note.empty()) append_wrapped(text, section.note, columns, "");
  text += table_line(section.headings, widths, section.words) + "\n";
  for (size_t i = 0; i < section.rows.size(); ++i) {
    text += table_line(section.rows[i], widths, section.words);
    if (bars && section.bars[i] > 0.5 / static_cast<double>(bar_columns))
      text += block_bar(section.bars[i], bar_columns);
    text += '\n';
  }
}

}  // namespace

std::string text_of(const Report& report, size_t columns) {
  std::string text = report.title + "\n";
  for (const auto& section : report.sections) append(text, printable(section), columns);
  if (!report.advice.empty()) text += "\nWhat would help most\n";
  for (size_t i = 0; i < report.advice.size(); ++i)
    append_wrapped(text, std::to_string(i + 1) + ". " + printable(report.advice[i]), columns,
                   "   ");
  return text;
}

}  // namespace composer
