#include "algorithms/cutmix.h"

#include <cmath>

#include "composer/state.h"

namespace composer {

at::Tensor cutmix(const at::Tensor& images, const at::Tensor& partners, const ImageBox& box) {
  auto mixed = images.clone();
  box.of(mixed).copy_(pick(box.of(images), 0, partners));
  return mixed;
}

ImageBox cutmix_box(ImageSize image, double lambda, bool uniform_sampling, Random& random) {
  const double share = std::sqrt(1 - lambda);
  const auto part = [&](int64_t side) {
    return static_cast<int64_t>(static_cast<double>(side) * share);
  };
  return random_box(image, {part(image.height), part(image.width)}, uniform_sampling, random);
}

void CutMix::after_dataloader(State& state) {
  auto& [images, target] = state.batch;
  Random random(state.seed, "cutmix.batch", 0, static_cast<uint64_t>(state.time.batch));
  const auto partners = random_partners(images.size(0), random, images.device());
  const auto size = size_of(images);
  const double lambda = random.beta(params_.alpha, params_.alpha);
  const auto box = cutmix_box(size, lambda, params_.uniform_sampling, random);
  const double pasted =
      static_cast<double>(box.height * box.width) / static_cast<double>(size.height * size.width);
  const auto weight = at::full({images.size(0)}, pasted, images.options().dtype(at::kFloat));
  target = mix_labels(target, partners, weight, "cutmix");
  images = cutmix(images, partners, box);
}

}  // namespace composer
