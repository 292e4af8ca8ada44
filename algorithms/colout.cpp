#include "algorithms/colout.h"

#include "algorithms/parts/whole_batch.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {
namespace {

/// floor((1 - p) * n) of 0..n-1 in order, each subset equally likely (Knuth's algorithm S).
at::Tensor kept(int64_t n, double p, Random& random) {
  constexpr double rounding = 1e-9;
  auto wanted = std::max<int64_t>(
      static_cast<int64_t>(std::floor((1 - p) * static_cast<double>(n) + rounding)), 1);
  std::vector<int64_t> indices;
  for (int64_t i = 0; wanted > 0; ++i)
    if (random.below(n - i) < wanted) {
      indices.push_back(i);
      --wanted;
    }
  return at::tensor(indices);
}

}  // namespace

at::Tensor colout(const at::Tensor& images, double p_row, double p_col, Random random) {
  const auto rows = kept(images.size(2), p_row, random),
             columns = kept(images.size(3), p_col, random);
  return pick(pick(images, 2, copy_to(images.device(), rows)), 3,
              copy_to(images.device(), columns));
}

void ColOut::after_dataloader(State& state) {
  const Random random(state.seed, "colout.lines", 0, static_cast<uint64_t>(state.time.batch));
  state.batch.input = colout(state.batch.input, params_.p_row, params_.p_col, random);
}

}  // namespace composer
