// What a sweep goes over: values of keys on a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace composer {

/// A key and what it takes: values, each as the words of a command line, or a range of numbers.
struct SweepAxis {
  struct Range {
    double low, high;  ///< 0 < low < high
    bool whole;
  };

  std::string key;  ///< as typed, without dashes
  std::vector<Words> values;
  std::optional<Range> range;
};

/// The words of a command line, divided.
struct SweepWords {
  Words fixed;                  ///< what all points have
  std::vector<SweepAxis> axes;  ///< in their order
};

/// `--lr 0.1,0.2` is an axis of two values, `--lr 0.01..1` a range; `[a b]` is one value of two
/// words, and what stands between quotes one word, commas and all. Several words after an option
/// are one value, a list, as for train. UserError for values that are empty or given twice, and for
/// brackets and quotes that are not closed.
SweepWords divided(const Words& words);

/// A point: for each axis the words of its value.
using SweepPoint = std::vector<Words>;

/// All, the last axis fastest. UserError for ranges, and for more than 10,000.
std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes);
/// `count` of them, or fewer where there are not so many: of the grid each at most once; with
/// ranges each value drawn anew, of a range uniformly in the logarithm. A function of the seed.
std::vector<SweepPoint> drawn_points(const std::vector<SweepAxis>& axes, int64_t count,
                                     uint64_t seed);

/// The point's words after those that are fixed.
Words words_of(const std::vector<SweepAxis>& axes, const SweepPoint& point);
/// "lr 0.1, momentum 0.9"; without the axis `except`.
std::string name_of(const std::vector<SweepAxis>& axes, const SweepPoint& point,
                    const std::string& except = "");

/// Successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943) of `points`: a third of them
/// goes on after each round, which is three times as long as the one before. The last has the
/// recipe's length.
struct HalvingRound {
  int64_t points;
  double length;  ///< share of the recipe's
};
std::vector<HalvingRound> halving_rounds(int64_t points);

}  // namespace composer
