#include "base/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

#include "base/number_text.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr int64_t widest_bar = 24, narrowest_bar = 8;

bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

/// Bytes that `columns` columns of `text` take.
size_t bytes_of(std::string_view text, int64_t columns) {
  size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_code_point(text[end]) && columns-- <= 0) break;
  return end;
}

std::string bar(double share, int64_t width) {
  const auto filled = static_cast<int64_t>(share * static_cast<double>(width));
  std::string text;
  for (int64_t i = 0; i < width; ++i) text += i < filled ? "━" : i == filled ? "╸" : " ";
  return text;
}

}  // namespace

bool shows_colors(int file) {
  const auto value = [](const char* name) -> std::string_view {
    const char* const text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  if (!value("NO_COLOR").empty()) return false;
  if (const auto forced = value("CLICOLOR_FORCE"); !forced.empty() && forced != "0") return true;
  const auto kind = value("TERM");
  return isatty(file) == 1 && value("CLICOLOR") != "0" && !kind.empty() && kind != "dumb";
}

std::string without_colors(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = std::min(text.find('m', i), text.size() - 1);
    else
      plain += text[i];
  }
  return plain;
}

int64_t terminal_columns(int file) {
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

int64_t columns_of(std::string_view text) { return std::ranges::count_if(text, begins_code_point); }

std::string first_columns(std::string_view text, int64_t columns) {
  return std::string(text.substr(0, bytes_of(text, columns)));
}

std::string parts_that_fit(std::vector<std::string> parts, int64_t columns, size_t kept) {
  const auto fits = [&] { return columns_of(joined(parts, "  ")) <= columns; };
  for (size_t last = parts.size(); last-- > 1 && !fits();)
    if (last != kept) parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(last));
  if (!parts.empty() && !fits()) parts.resize(1);
  return first_columns(joined(parts, "  "), columns);
}

std::string progress_line(const std::string& name, double share,
                          const std::vector<std::string>& parts, int64_t columns) {
  std::vector<std::string> tail{percent_text(share)};
  tail.insert(tail.end(), parts.begin(), parts.end());
  const int64_t room = columns - columns_of(name) - 1;
  const auto text = parts_that_fit(tail, std::max(room - narrowest_bar - 1, int64_t{4}));
  const int64_t width = std::min(room - columns_of(text) - 1, widest_bar);
  const auto middle = width >= narrowest_bar ? bar(share, width) + " " : "";
  return first_columns(name + " " + middle + text, columns);
}

std::vector<std::string> wrapped(std::string_view line, int64_t columns) {
  const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
  const int64_t room = std::max<int64_t>(columns - columns_of(indent), 0);
  line.remove_prefix(indent.size());
  std::vector<std::string> lines;
  while (columns_of(line) > room) {
    // The blank behind what fits may be the next character.
    const auto fits = line.substr(0, bytes_of(line, room + 1));
    size_t end = fits.rfind(", ");
    if (end != fits.npos && 2 * columns_of(fits.substr(0, end)) >= room)
      ++end;
    else
      end = fits.rfind(' ');
    if (end == fits.npos) end = line.find(' ');
    if (end == line.npos) break;
    lines.push_back(indent + std::string(line.substr(0, line.find_last_not_of(' ', end) + 1)));
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
  }
  if (!line.empty() || lines.empty()) lines.push_back(indent + std::string(line));
  return lines;
}

std::string wrapped_for(int file, std::string_view text) {
  if (isatty(file) != 1) return std::string(text);
  const int64_t columns = terminal_columns(file);
  std::string all;
  for (const auto line : separated(text, '\n')) all += joined(wrapped(line, columns), "\n") + '\n';
  all.pop_back();
  return all;
}

}  // namespace composer
