// Which samples of a set take part: the rows that a recipe names, on one side of a split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/loading/loader_options.h"
#include "data/samples/source.h"

namespace composer {

/// The samples of `rows` (parse_rows; "" = all) that are on the side of options.split, in their
/// order; empty = all there are. Of each class the share `val`, rounded, at least one sample and
/// not all, is evaluated on (of a share of 1 all); a class with one sample is trained on. The side
/// of a sample is a pure function of the split's share and seed, the rows and their labels.
///
/// For training, the log tells how large the sides are, which classes have one sample, and warns of
/// classes that `rows` leaves out, and of samples that are all of one class; for an evaluation, of
/// classes that have no sample. Throws UserError for rows that are not there, and where nothing is
/// left to evaluate on.
std::vector<int64_t> chosen_rows(const Source& source, const std::string& rows, bool training,
                                 const LoaderOptions& options);

/// Of the number of samples and, where there are classes, their labels in order; empty where a
/// label is lost.
std::string digest_of(const Source& source);

}  // namespace composer
