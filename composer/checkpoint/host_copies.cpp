#include "composer/checkpoint/host_copies.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace composer {
namespace {

bool fits(const at::Tensor& kept, const at::Tensor& tensor) {
  return kept.defined() && kept.scalar_type() == tensor.scalar_type() &&
         kept.sizes() == tensor.sizes() && kept.strides() == tensor.strides();
}

/// A tensor's bytes, which are [begin, end) of those of all.
struct Piece {
  std::byte* to;
  const std::byte* from;
  int64_t begin, end;
};

/// All in one go on all compute threads: to wait for them after each tensor takes longer than to
/// copy most of them.
void copy(const std::vector<Piece>& pieces) {
  if (pieces.empty()) return;
  at::parallel_for(0, pieces.back().end, /*grain_size=*/1 << 20, [&](int64_t begin, int64_t end) {
    auto piece = std::ranges::upper_bound(pieces, begin, {}, &Piece::end);
    for (; piece != pieces.end() && piece->begin < end; ++piece) {
      const auto first = std::max(begin, piece->begin), last = std::min(end, piece->end);
      const auto offset = first - piece->begin;
      std::memcpy(piece->to + offset, piece->from + offset, static_cast<size_t>(last - first));
    }
  });
}

}  // namespace

void HostCopies::take(const std::vector<at::Tensor*>& tensors) {
  const at::NoGradGuard no_grad;
  kept_.resize(tensors.size());
  copied_ = nullptr;
  std::optional<at::Device> device;
  std::vector<Piece> pieces;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = *tensors[i];
    const bool here = tensor.is_cpu();
    at::Tensor& kept = kept_[i];
    if (!fits(kept, tensor))
      kept = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(!here));
    if (!here) device = tensor.device();
    if (here && tensor.is_non_overlapping_and_dense() && tensor.numel() > 0) {
      const auto size = static_cast<int64_t>(tensor.nbytes());
      pieces.push_back({static_cast<std::byte*>(kept.mutable_data_ptr()),
                        static_cast<const std::byte*>(tensor.const_data_ptr()), bytes,
                        bytes + size});
      bytes += size;
    } else {
      kept.copy_(tensor, /*non_blocking=*/true);
    }
  }
  copy(pieces);
  for (size_t i = 0; i < tensors.size(); ++i) *tensors[i] = kept_[i];
  if (!device) return;
  const auto event = std::make_shared<c10::Event>(device->type());
  event->record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
  copied_ = event;
}

void HostCopies::wait() const {
  if (copied_) static_cast<c10::Event*>(copied_.get())->synchronize();
}

}  // namespace composer
