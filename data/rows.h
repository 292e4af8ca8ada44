// Which samples of a set take part: the rows that a recipe names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "composer/loader.h"
#include "data/source.h"

namespace composer {

/// The samples of `rows` (parse_rows; "" = all), in their order; empty = all there are. For
/// training, the log warns of classes that `rows` leaves out. Throws UserError for rows that are
/// not there.
std::vector<int64_t> chosen_rows(const Source& source, const std::string& rows, bool training,
                                 const LoaderOptions& options);

}  // namespace composer
