#include "algorithms/cutmix.h"

#include "algorithms/parts/schedule.h"
#include "base/log.h"
#include "composer/loop/state.h"

namespace composer {

at::Tensor cutmix(const at::Tensor& images, const at::Tensor& partners, const Box& box) {
  auto mixed = images.clone();
  part_of(mixed, box).copy_(pick(part_of(images, box), 0, partners));
  return mixed;
}

Box cutmix_box(ImageSize image, double lambda, bool uniform_sampling, Random& random) {
  const double share = std::sqrt(1 - lambda);
  const auto part = [&](int64_t side) {
    return static_cast<int64_t>(static_cast<double>(side) * share);
  };
  return random_box(image, {part(image.height), part(image.width)}, uniform_sampling, random);
}

CutMix::CutMix(Params params) : params_(params) {
  if (params.num_classes)
    log::warn(
        "algorithms.cutmix.num_classes: has no effect: labels are mixed as indices, and how many "
        "classes there are is the model's to know");
}

Box fixed_box(ImageSize image, double length, Random& random) {
  const auto part = [&](int64_t side) {
    return std::max<int64_t>(static_cast<int64_t>(static_cast<double>(side) * length), 1);
  };
  return box_within(image, {part(image.height), part(image.width)}, random);
}

std::string CutMix::Params::check() const {
  const bool outside = length && uniform_sampling;
  return (outside
              ? "uniform_sampling: must be false with length, whose boxes are within the image\n"
              : "") +
         check_start("start", start);
}

void CutMix::fit_start(State& state) {
  warn_if_never(state, "algorithms.cutmix.start", params_.start);
}

void CutMix::after_dataloader(State& state) {
  if (!reached(state, params_.start)) return;
  auto& [images, target] = state.batch;
  const auto partners = partners_within("cutmix", state);
  Random random(state.seed, "cutmix.box", 0, static_cast<uint64_t>(state.time.batch));
  const auto size = size_of(images);
  const auto box = params_.length ? fixed_box(size, *params_.length, random)
                                  : cutmix_box(size, random.beta(params_.alpha, params_.alpha),
                                               params_.uniform_sampling, random);
  const double pasted =
      static_cast<double>(box.height * box.width) / static_cast<double>(size.height * size.width);
  const auto weight = at::full({images.size(0)}, pasted, images.options().dtype(at::kFloat));
  target = mix_labels(target, partners, weight, "cutmix");
  images = cutmix(images, partners, box);
}

}  // namespace composer
