#include "algorithms/mixup.h"

#include "algorithms/parts/whole_batch.h"
#include "base/log.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {

at::Tensor mixup(const at::Tensor& images, const at::Tensor& partners, const at::Tensor& weight) {
  return images.lerp(pick(images, 0, partners),
                     weight.to(images.scalar_type()).view({-1, 1, 1, 1}));
}

at::Tensor mixup_weight(int64_t n, double alpha, bool per_sample, Random& random) {
  auto weight = at::empty({n}, at::kFloat);
  const auto draw = [&] {
    const double lambda = random.beta(alpha, alpha);
    return static_cast<float>(std::min(lambda, 1 - lambda));
  };
  if (!per_sample) return weight.fill_(draw());
  std::generate_n(weight.mutable_data_ptr<float>(), n, draw);
  return weight;
}

Mixup::Mixup(Params params) : params_(params) {
  if (params.interpolate_loss)
    log::warn(
        "algorithms.mixup.interpolate_loss: true has no effect: the loss is that of both labels in "
        "their shares, which for these losses is the same as that of mixed labels");
}

void Mixup::after_dataloader(State& state) {
  auto& [images, target] = state.batch;
  const auto partners = partners_within("mixup", state);
  // Weights of the images before this rank's come first.
  const int64_t before = params_.per_sample ? state.first_sample : 0, n = images.size(0);
  Random random(state.seed, "mixup.weights", 0, static_cast<uint64_t>(state.time.batch));
  const auto weights = mixup_weight(before + n, params_.alpha, params_.per_sample, random);
  const auto weight = copy_to(images.device(), weights.narrow(0, before, n));
  target = mix_labels(target, partners, weight, "mixup");
  images = mixup(images, partners, weight);
}

}  // namespace composer
