// Curves over the course of runs, as SVG.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace composer {

/// The ends of an axis, and its ticks.
class Axis {
 public:
  enum class Kind { linear, logarithmic };
  enum class Ends {
    of_values,  ///< the axis ends at the smallest and the largest value
    of_ticks,   ///< the axis ends at the ticks around the values
  };

  /// An axis for values from `low` to `high`, which are finite and may be equal; a logarithmic axis
  /// needs values above 0. `steps`: about how many ticks are wanted, at least 2. Values beyond
  /// 1e300 lie at an end.
  static Axis linear(double low, double high, Ends ends = Ends::of_ticks, int steps = 5);
  static Axis logarithmic(double low, double high);
  /// An axis from 0 to `high` with whole numbers as ticks.
  static Axis counting(double high);
  /// An axis whose ticks are `marks`, at least one, as far as there is room; the values lie on or
  /// between the marks.
  static Axis of_marks(std::vector<double> marks);

  /// The same axis in a unit that is 1 / `factor` of this axis's unit.
  Axis times(double factor) const;

  Kind kind() const { return kind_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// Ascending, all within the ends. The ticks of a linear axis are multiples of 1, 2, 2.5 or 5
  /// times a power of ten; the ticks of a logarithmic axis are powers of ten, and 2 and 5 times
  /// these if there are few.
  const std::vector<double>& ticks() const { return ticks_; }

  /// The position of `value`: 0 at low(), 1 at high(). Values beyond the ends, or below 0 on a
  /// logarithmic axis, are put on the ends; NaN stays NaN.
  double place(double value) const;

 private:
  void add_ticks(double step);

  Kind kind_ = Kind::linear;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

/// The unit of time in which `longest` seconds are told.
struct TimeUnitOfAxis {
  std::string name;  ///< "seconds", "minutes", "hours" or "days"
  double seconds;
};
TimeUnitOfAxis time_unit_for(double longest);

/// The format of a chart's numbers; `share` shows 0.5 as "50 %".
enum class Figures { plain, share, pixels, seconds, bytes };

struct LineChart {
  struct Line {
    std::string name;   ///< the legend's entry: a run, or a metric of one run
    int color = 0;      ///< index into the page's colours
    bool dots = false;  ///< draws up to 60 points as dots, as a line of few points has anyway
    bool dashed = false;
    Curve curve;
  };

  std::string title, note;  ///< note: small print beside the title; may be empty
  Figures figures = Figures::plain;
  bool logarithmic = false;  ///< has no effect unless all values are above 0
  bool from_zero = false;    ///< the vertical axis begins at 0 unless a value is below 0
  bool stairs = false;       ///< a value holds until the next point
  bool named = false;        ///< the legend is shown even for a single line
  Curve::Point end{};        ///< the horizontal axes reach at least this point
  std::vector<Line> lines;   ///< lines without points are left out
};

/// The rectangle between the axes, in units of the drawing.
struct PlotArea {
  double left, right, top, bottom;

  /// The position of a share of the width from the left, or of the height from below.
  constexpr double x(double share) const { return left + share * (right - left); }
  constexpr double y(double share) const { return bottom - share * (bottom - top); }
  constexpr double middle() const { return (left + right) / 2; }

  /// A horizontal line at each tick, and its label `gap` to the left of the area.
  std::string value_grid(const Axis& values, double gap,
                         const std::function<std::string(double)>& label) const;
  /// The line at the bottom.
  std::string base() const;
};

/// A <figure> with a caption and the drawing `inner`. label: for readers who cannot see it.
std::string chart_figure(const std::string& title, const std::string& note,
                         const std::string& label, double width, double height,
                         const std::string& inner);

/// Whether any line has a finite value.
bool has_points(const LineChart& chart);

/// The reach of the running mean (smoothed) that is drawn over `line`: the largest trend_reach of
/// the noisy lines of its metric; 0 if none is noisy, and only the line itself is drawn.
size_t trend_reach(const LineChart& chart, const LineChart::Line& line);

/// A <figure> with a drawing against batches, one against images and one against seconds, of which
/// the page shows one, and the numbers as JSON in a <script class="data">:
/// {"title", "lines": [{"name", "metric", "batch": [], "sample": [], "seconds": [], "value": []}]},
/// the same points that are drawn, with null for values that are not finite. Noisy lines, and other
/// lines of their metric, are drawn faintly under their trend. A line has at most 2000 points
/// (thinned). A cross marks where a line stops being finite; the legend names lines that are
/// nowhere finite. Empty if no line has points.
std::string figure_of(const LineChart& chart);

/// The charts beside each other; empty where none has points.
std::string figures_of(const std::vector<LineChart>& charts);

/// The labels by which a reader chooses what charts are drawn against; they work without a script.
std::string axis_labels();

/// The vertical axis of a chart that has a finite value.
Axis values_axis(const LineChart& chart);

/// The label of a tick of the vertical axis.
std::string value_tick(const LineChart& chart, const Axis& values, double value);

/// The unit in which a chart's numbers up to `largest` are shown, for example MiB or minutes.
struct ValueUnit {
  std::string name;
  double size = 1;
};
ValueUnit unit_of(Figures figures, double largest);

/// The horizontal axis, which starts at the runs' beginning.
struct Course {
  Against against;
  double unit = 1;    ///< the curves' numbers are divided by this first
  std::string title;  ///< "steps", "images", or a unit of time
  Axis axis;

  std::string tick(double value) const;

  /// The position of `point` on the axis, in [0, 1].
  double place(const Curve::Point& point) const { return axis.place(point.at(against) / unit); }
};
Course course_of(const LineChart& chart, Against against);

}  // namespace composer
