// The place of a rank's share in the batch of all ranks; share_begin (base/rank_environment.h)
// divides it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rank_environment.h"
#include "nn/distributed/ranks.h"
#include "nn/network/batch.h"

namespace composer {

/// Concatenates the rows of all ranks in the order of the ranks. own: this rank's, [counts[rank],
/// ...].
at::Tensor rows_of_all(const at::Tensor& own, const std::vector<int64_t>& counts,
                       const Ranks& ranks);

/// Returns the place of this rank's share, `batch`. If the loader does not tell it, samples may be
/// missing, and the ranks exchange their counts. If a rank has none left, the remaining samples are
/// divided anew and `batch` changes. Ranks that have rows of the same images count as one. RunError
/// if there are fewer samples than shares, if ranks of the same images have read different numbers
/// of samples, or if `batch` has other samples than the loader told.
Share take_share(RawBatch& batch, const Ranks& all);

}  // namespace composer
