// What pages are made of: their frame, sections and charts.
#pragma once

#include <string>
#include <vector>

#include "analysis/line_chart.h"

namespace composer {

/// A part of the page with a heading; nothing where `inner`, markup, is empty.
std::string section(const std::string& id, const std::string& title, const std::string& inner);

/// By which a reader chooses what charts are drawn against; works without a script.
std::string axis_labels();

/// The charts beside each other.
std::string figures_of(const std::vector<LineChart>& charts);

/// The whole page, with style and script inside. title: text. main: markup.
std::string page_of(const std::string& title, const std::string& main);

}  // namespace composer
