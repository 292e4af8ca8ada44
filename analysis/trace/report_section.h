// A report on traces, section by section, for the terminal or a page.
#pragma once

#include <string>
#include <vector>

#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_diff.h"

namespace composer {

/// A table with a note on how to read it.
struct ReportSection {
  std::string title, note;
  std::vector<std::string> headings;
  size_t words = 1;  ///< number of columns of words at the left; the others hold numbers
  std::vector<std::vector<std::string>> rows{};
  std::vector<double> bars{};  ///< one per row, in [0, 1], or none
};

struct Report {
  std::string title;
  std::vector<ReportSection> sections{};
  std::vector<std::string> advice{}, warnings{};
};

Report report_of(const TraceAnalysis& analysis);
/// most_rows: the number of rows, from the largest change of time; 0: all.
Report report_of(const TraceDiff& diff, size_t most_rows);

/// Lines of at most `columns` columns; long words are cut, numbers are not.
std::string text_of(const Report& report, int64_t columns = 100);

/// A self-contained HTML page, light or dark as the reader's system is.
std::string page_of(const Report& report);

}  // namespace composer
