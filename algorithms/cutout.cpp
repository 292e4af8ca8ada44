#include "algorithms/cutout.h"

#include "composer/loop/state.h"

namespace composer {

at::Tensor cutout(const at::Tensor& images, const std::vector<Box>& holes) {
  auto cut = images.clone();
  for (const auto& hole : holes) part_of(cut, hole).zero_();
  return cut;
}

void Cutout::after_dataloader(State& state) {
  auto& images = state.batch.input;
  Random random(state.seed, "cutout.holes", 0, static_cast<uint64_t>(state.time.batch));
  const auto size = size_of(images);
  const auto side =
      static_cast<int64_t>(static_cast<double>(std::min(size.height, size.width)) * params_.length);
  std::vector<Box> holes(static_cast<size_t>(params_.num_holes));
  for (auto& hole : holes) hole = random_box(size, {side, side}, params_.uniform_sampling, random);
  images = cutout(images, holes);
}

}  // namespace composer
