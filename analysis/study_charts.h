// Drawings of a study.
#pragma once

#include <string>

#include "analysis/study.h"

namespace composer {

/// The metric of every run as a dot, a row a variant, with the mean and its 95 % interval. Empty
/// where nothing is done.
std::string spread_figure(const Study& study);

enum class Cost { time, money };
/// The metric against time, or against what it costs, with the frontier (frontier_of). A dot is a
/// variant's mean; series are lines. Empty where fewer than two variants are done.
std::string frontier_figure(const Study& study, Cost cost);

/// The metric over the course of the first run that is done of each of the first eight variants.
std::string course_figure(const Study& study);

}  // namespace composer
