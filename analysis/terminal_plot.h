// Charts in a terminal, drawn with Braille characters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/line_chart.h"

namespace composer {

/// A field of 2 x 4 dots per character; a character has the colour of its last dot.
class DotField {
 public:
  DotField(int64_t columns, int64_t rows);

  int64_t width() const { return columns_ * 2; }
  int64_t height() const { return rows_ * 4; }

  /// x from the left, y from the top; dots outside the field are left out.
  void dot(int64_t x, int64_t y, int color);
  void line(int64_t x0, int64_t y0, int64_t x1, int64_t y1, int color);

  /// One string per row, with escape sequences for the colours 0 to 7.
  std::vector<std::string> rows() const;

 private:
  struct Cell {
    unsigned dots = 0;
    int color = 0;
  };

  int64_t columns_, rows_;
  std::vector<Cell> cells_;
};

/// The label of each row of a plot. Of ticks that share a row the upper one has it.
std::vector<std::string> row_labels(const Axis& values, int64_t rows,
                                    const std::function<std::string(double)>& label);

/// The rows of the field, each behind its label, which has so many columns.
std::vector<std::string> labelled_rows(const DotField& field,
                                       const std::vector<std::string>& labels, int64_t columns);

/// `text` in one of eight terminal colours, numbered from 0.
std::string colored(const std::string& text, int color);

/// Title and legend, the curves beside the labels of the vertical axis, and the labels of the
/// horizontal axis: exactly `rows` lines of at most `columns` columns, not counting escape
/// sequences. At least 5 rows and 24 columns. A remark in place of the curves if no value is
/// finite.
std::vector<std::string> terminal_plot(const LineChart& chart, Against against, int64_t columns,
                                       int64_t rows);

}  // namespace composer
