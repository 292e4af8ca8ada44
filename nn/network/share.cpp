#include "nn/network/share.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace composer {

at::Tensor rows_of_all(const at::Tensor& own, const std::vector<int64_t>& counts,
                       const Ranks& ranks) {
  auto sizes = own.sizes().vec();
  sizes[0] = std::ranges::max(counts);
  const auto sent = at::zeros(sizes, own.options().pinned_memory(false));
  sent.narrow(0, 0, own.size(0)).copy_(own);
  const auto gathered = ranks.gather(sent);
  std::vector<at::Tensor> rows;
  for (size_t rank = 0; rank < counts.size(); ++rank)
    rows.push_back(gathered[static_cast<int64_t>(rank)].narrow(0, 0, counts[rank]));
  return at::cat(rows);
}

Share take_share(RawBatch& batch, const Ranks& all) {
  // With one rank, or a loader that was opened for another number of them, there is nothing to
  // trust.
  if (batch.share && !all.alone() && batch.share->shares == all.of_samples().size()) {
    if (batch.samples() == batch.share->own) return *batch.share;
    throw RunError("a batch has " + quantity(batch.samples(), "sample") + ", its share " +
                   std::to_string(batch.share->own) +
                   ": a loader that leaves samples out of another's batch resets RawBatch::share");
  }
  const auto of_rows = all.of_rows().gather(batch.samples());
  if (std::ranges::max(of_rows) != std::ranges::min(of_rows))
    throw RunError("ranks that have rows of the same images could not read the same ones: " +
                   std::to_string(std::ranges::min(of_rows)) + " and " +
                   std::to_string(std::ranges::max(of_rows)) + " samples of a batch");
  const auto ranks = all.of_samples();
  const auto counts = ranks.gather(batch.samples());
  const int64_t samples = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (samples < ranks.size())
    throw RunError("of a batch only " + quantity(samples, "sample") +
                   " could be read, too few for " + std::to_string(ranks.size()) +
                   (all.of_rows().alone() ? " ranks" : " groups of ranks that share images"));
  if (std::ranges::min(counts) > 0)
    return {std::accumulate(counts.begin(), counts.begin() + ranks.rank(), int64_t{0}),
            batch.samples(), samples, ranks.size()};

  const int64_t begin = share_begin(samples, ranks.rank(), ranks.size());
  const int64_t end = share_begin(samples, ranks.rank() + 1, ranks.size());
  batch.images = rows_of_all(batch.images, counts, ranks).slice(0, begin, end);
  batch.indices = at::Tensor();  // which need not be sent
  for (auto* part : batch.target.tensors())
    if (part->defined()) *part = rows_of_all(*part, counts, ranks).slice(0, begin, end);
  return {begin, end - begin, samples, ranks.size()};
}

}  // namespace composer
