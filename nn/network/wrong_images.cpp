#include "nn/network/wrong_images.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace composer {

void WrongImages::add(const at::Tensor& input, const at::Tensor& logits, const at::Tensor& classes,
                      const at::Tensor& indices) {
  const at::NoGradGuard no_grad;
  const auto numbers = logits.to(at::kFloat);
  const auto losses = at::cross_entropy_loss(numbers, classes, /*weight=*/{}, at::Reduction::None);
  const bool full = losses_.defined() && losses_.size(0) == most_;
  if (full && losses.is_cpu() && losses.max().item<float>() <= losses_[-1].item<float>()) return;
  const auto worst = std::get<1>(losses.topk(std::min(most_, losses.size(0))));
  const auto put = [&](at::Tensor& kept, const at::Tensor& all) {
    const auto chosen = all.index_select(0, worst);
    kept = kept.defined() ? at::cat({kept, chosen}) : chosen;
  };
  put(losses_, losses), put(images_, input), put(logits_, numbers), put(classes_, classes);
  if (indices.defined()) put(indices_, indices.to(classes.device()));
  const auto order = std::get<1>(losses_.topk(std::min(most_, losses_.size(0))));
  for (auto* kept : {&losses_, &images_, &logits_, &classes_, &indices_})
    if (kept->defined()) *kept = kept->index_select(0, order);
}

}  // namespace composer
