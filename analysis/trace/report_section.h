// What a report of traces says, section by section, in words: for the terminal or a page.
#pragma once

#include <string>
#include <vector>

#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_diff.h"

namespace composer {

/// A table with what to know for reading it.
struct ReportSection {
  std::string title, note;
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
  size_t words = 1;          ///< so many columns from the left hold words, the others numbers
  std::vector<double> bars;  ///< one a row, in [0, 1], or none
};

struct Report {
  std::string title;
  std::vector<ReportSection> sections;
  std::vector<std::string> advice;
  std::vector<std::string> warnings;
};

Report report_of(const TraceAnalysis& analysis);
/// most_rows: those whose time changes most; 0: all.
Report report_of(const TraceDiff& diff, size_t most_rows);

/// Lines of at most `columns`; long words are cut, and the columns of numbers kept.
std::string text_of(const Report& report, size_t columns = 100);

/// One HTML page that needs nothing else, light or dark as the reader's system is.
std::string page_of(const Report& report);

}  // namespace composer
