// Damages files as a pure function of a seed.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"

namespace composer::test {

/// One of the files with one to five changes: bits, bytes and numbers (lengths, offsets) set, parts
/// cut off, doubled, or replaced by parts of another file. files: at least one, none longer than
/// `most_bytes`; the result is not longer either.
std::string mutated(const std::vector<std::string>& files, Random& random, size_t most_bytes);

}  // namespace composer::test
