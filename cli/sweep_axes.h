// The axes of a sweep: keys with several values on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace composer {

/// A key with its values, each as words of a command line, or with a range of numbers.
struct SweepAxis {
  struct Range {
    double low, high;  ///< 0 < low < high
    bool whole;
  };

  std::string key;  ///< the key as typed, without dashes
  std::vector<Words> values;
  std::optional<Range> range;
};

/// A command line, divided into fixed words and axes.
struct SweepWords {
  Words fixed;                  ///< words that all points share
  std::vector<SweepAxis> axes;  ///< axes in the order of the command line
};

/// Parses the axes: `--lr 0.1,0.2` has two values, `--lr 0.01..1` is a range, `[a b]` is one value
/// of two words, and a quoted text is one word, commas included. Several words after an option are
/// one value, a list, as for train. UserError for empty or repeated values, and for unclosed
/// brackets and quotes.
SweepWords divided(const Words& words);

/// A point of the grid: for each axis the words of its value.
using SweepPoint = std::vector<Words>;

/// All points of the grid; the last axis varies fastest. UserError for a range, and for more than
/// 10,000 points.
std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes);
/// Draws `count` different points, or fewer if the grid has fewer. With ranges each value is drawn
/// independently, from a range uniformly in the logarithm. A pure function of its arguments.
std::vector<SweepPoint> drawn_points(const std::vector<SweepAxis>& axes, int64_t count,
                                     uint64_t seed);

/// The words of the command line that set the point.
Words words_of(const std::vector<SweepAxis>& axes, const SweepPoint& point);
/// The name of a point without the axis `except`: "lr 0.1, momentum 0.9".
std::string name_of(const std::vector<SweepAxis>& axes, const SweepPoint& point,
                    const std::string& except = "");

/// A round of successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943). The best third of
/// the points goes on to the next round, which is three times as long. The last round has the
/// recipe's length.
struct HalvingRound {
  int64_t points;
  double length;  ///< share of the recipe's length
};
std::vector<HalvingRound> halving_rounds(int64_t points);

}  // namespace composer
