#include "composer/storage/host_copies.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace composer {
namespace {

bool fits(const at::Tensor& kept, const at::Tensor& tensor) {
  return kept.defined() && kept.scalar_type() == tensor.scalar_type() &&
         kept.sizes() == tensor.sizes() && kept.strides() == tensor.strides();
}

}  // namespace

void HostCopies::take(const std::vector<at::Tensor*>& tensors) {
  const at::NoGradGuard no_grad;
  kept_.resize(tensors.size());
  copied_ = nullptr;
  std::optional<at::Device> device;
  for (size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor& tensor = *tensors[i];
    const bool here = tensor.is_cpu();
    if (!fits(kept_[i], tensor))
      kept_[i] = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(!here));
    kept_[i].copy_(tensor, /*non_blocking=*/true);
    if (!here) device = tensor.device();
    tensor = kept_[i];
  }
  if (!device) return;
  const auto event = std::make_shared<c10::Event>(device->type());
  event->record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
  copied_ = event;
}

void HostCopies::wait() const {
  if (copied_) static_cast<c10::Event*>(copied_.get())->synchronize();
}

}  // namespace composer
