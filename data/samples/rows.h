// The samples of a set that take part: the rows that a recipe names, on one side of a split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/loading/loader_options.h"
#include "data/samples/source.h"

namespace composer {

/// The samples of `rows` (parse_rows; "": all) that are on the side of options.split, in order; an
/// empty result stands for all samples. The side for evaluation has the share `val` of each class,
/// rounded, but at least one sample and not all; a share of 1 takes all samples. A class with one
/// sample is trained on. The side of a sample is a pure function of the split's share and seed, the
/// rows and their labels.
///
/// For training, the log says how large the sides are and which classes have one sample, and warns
/// of classes that `rows` leaves out and of samples that all have one class; for an evaluation, it
/// warns of classes without samples. Throws UserError for rows that do not exist, and where a side
/// has no samples.
std::vector<int64_t> chosen_rows(const Source& source, const std::string& rows, bool training,
                                 const LoaderOptions& options);

/// A digest of the number of samples and, where there are classes, their labels in order; empty
/// where a label is lost.
std::string digest_of(const Source& source);

}  // namespace composer
