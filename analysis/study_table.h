// The results of a study as a table and sentences.
#pragma once

#include <string>
#include <vector>

#include "analysis/study.h"

namespace composer {

struct StudyTable {
  std::vector<std::string> headings;           ///< the first belongs to the names
  std::vector<std::vector<std::string>> rows;  ///< each has as many cells as headings
  std::vector<bool> marked;  ///< per row, whether its difference is beyond the noise
};

StudyTable table_of(const Study& study);
/// The table of the interactions; no rows without interactions.
StudyTable interaction_table_of(const Study& study);

/// Remarks on the numbers and on failed runs, a line each.
std::vector<std::string> remarks_of(const Study& study);

}  // namespace composer
