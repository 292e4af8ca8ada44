// How the samples of a batch are shared out to the ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/place.h"
#include "nn/distributed/ranks.h"
#include "nn/network/batch.h"

namespace composer {

/// The rows of `own`, [counts[rank], ...], of all ranks in their order.
at::Tensor rows_of_all(const at::Tensor& own, const std::vector<int64_t>& counts,
                       const Ranks& ranks);

/// Finds the place of `batch`, this rank's share. Where the loader does not tell it, the share may
/// have lost samples, and the ranks tell each other how many they have. Where that of some rank has
/// lost them all, those that are left are shared out anew. Ranks of the same images have one share.
/// RunError where samples are fewer than shares, or those ranks have other ones.
Share take_share(RawBatch& batch, const Ranks& all);

}  // namespace composer
