// What a study came to, as a table and sentences for people.
#pragma once

#include <string>
#include <vector>

#include "analysis/study.h"

namespace composer {

struct StudyTable {
  std::vector<std::string> headings;           ///< the first is of the names
  std::vector<std::vector<std::string>> rows;  ///< as many cells each
  std::vector<bool> marked;                    ///< rows whose difference is beyond the noise
};

StudyTable table_of(const Study& study);
/// Of the interactions; no rows where there are none.
StudyTable interaction_table_of(const Study& study);

/// What is to be known of the numbers, and what failed, a line each.
std::vector<std::string> remarks_of(const Study& study);

}  // namespace composer
