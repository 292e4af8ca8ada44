// Curves over the course of runs, as SVG.
#pragma once

#include <string>
#include <vector>

#include "analysis/curve.h"

namespace composer {

/// How the numbers of a chart read. share: 0.5 is "50 %".
enum class Figures { plain, share, pixels, seconds, bytes };

struct LineChart {
  struct Line {
    std::string name;   ///< for the legend: a run, or a metric of one run
    int color = 0;      ///< of those of the page, counted from 0
    bool dots = false;  ///< points that count each: evaluations. Where they are few, all do
    bool dashed = false;
    Curve curve;
  };

  std::string title, note;  ///< note: small beside the title; may be empty
  Figures figures = Figures::plain;
  bool logarithmic = false;  ///< where all values are above 0
  bool from_zero = false;    ///< the vertical axis begins at 0 where no value is below
  bool stairs = false;       ///< values hold until the next one
  bool named = false;        ///< a line alone has its name beside it too
  Curve::Point end{};        ///< the horizontal axes go at least to here
  std::vector<Line> lines;   ///< those without points are left out
};

/// Whether any line has something to be drawn.
bool has_points(const LineChart& chart);

/// The reach of the means that are drawn over a line (smoothed): the largest that suits a noisy
/// line of its metric; 0 where none is noisy, and the line is drawn alone.
size_t trend_reach(const LineChart& chart, const LineChart::Line& line);

/// A <figure> with a drawing against batches, one against images and one against seconds, of which
/// the page shows one, and the numbers as JSON in a <script class="data">:
/// {"title", "lines": [{"name", "metric", "batch": [], "sample": [], "seconds": [], "value": []}]},
/// the same points that are drawn; not finite: null. Noisy lines, and those of the same metric
/// beside them, are drawn faintly, their trend over them. At most 2000 points a line (thinned).
/// Where a line stops being finite is a cross; of one that is nowhere, words say so. Empty where no
/// line has points.
std::string figure_of(const LineChart& chart);

}  // namespace composer
