// Charts in a terminal, drawn with Braille characters, and the screen of `composer watch`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/line_chart.h"
#include "analysis/run.h"

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

/// The rows of the field, each behind its label, which has this many columns.
std::vector<std::string> labelled_rows(const DotField& field,
                                       const std::vector<std::string>& labels, int64_t columns);

/// Title and legend, the curves beside the labels of the vertical axis, and the labels of the
/// horizontal axis: exactly `rows` lines of at most `columns` columns, not counting escape
/// sequences. At least 5 rows and 24 columns. A remark in place of the curves if no value is
/// finite.
std::vector<std::string> terminal_plot(const LineChart& chart, Against against, int64_t columns,
                                       int64_t rows);

/// The progress of a run, as far as it is known.
struct RunProgress {
  std::optional<double> share;         ///< trained share of the run's length, in [0, 1]
  std::optional<double> seconds_left;  ///< at the pace of the last tenth of the trained batches
};
RunProgress progress_of(const Run& run);

/// Status, progress, curves and the last evaluations: exactly `rows` lines of at most `columns`
/// columns, not counting escape sequences. Curves that do not fit are left out.
std::vector<std::string> watch_screen(const Run& run, int64_t columns, int64_t rows);

/// One readable line for a log entry that ends an epoch or an evaluation; empty for other entries.
std::string watch_line(const LogEntry& entry);

}  // namespace composer
