// Charts in a terminal, of Braille's dots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/line_chart.h"

namespace composer {

/// A field of 2 x 4 dots a character, each character of the colour that it was given last.
class DotField {
 public:
  DotField(int64_t columns, int64_t rows);

  int64_t width() const { return columns_ * 2; }
  int64_t height() const { return rows_ * 4; }

  /// x from the left, y from the top; what lies beyond the field is left out.
  void dot(int64_t x, int64_t y, int color);
  void line(int64_t x0, int64_t y0, int64_t x1, int64_t y1, int color);

  /// One string a row, with the escape sequences of colours 0 to 7.
  std::vector<std::string> rows() const;

 private:
  struct Cell {
    unsigned dots = 0;
    int color = 0;
  };

  int64_t columns_, rows_;
  std::vector<Cell> cells_;
};

/// `text` in colour 0 to 7 of the terminal's bright ones, from blue on.
std::string colored(const std::string& text, int color);

/// Title and legend, the curves beside the ticks of their values, and the ticks of their course:
/// exactly `rows` lines of at most `columns` columns, not counting escape sequences. At least 5
/// rows and 24 columns. Words where no value is finite.
std::vector<std::string> terminal_plot(const LineChart& chart, Against against, int64_t columns,
                                       int64_t rows);

}  // namespace composer
