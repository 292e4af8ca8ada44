// The images that a network is most wrong about.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// Of all samples it is shown, those of the highest cross-entropy, without waiting for a device.
class WrongImages {
 public:
  explicit WrongImages(int64_t most) : most_(most) {}

  /// input [N, C, H, W], of the same C, H and W every time; logits [N, num_classes] of any floating
  /// type; classes int64 [N]; all on one device. indices: of the samples in their set, int64 [N] on
  /// the CPU; undefined, each time, where they are not known. Images are copied only where they are
  /// among the worst so far.
  void add(const at::Tensor& input, const at::Tensor& logits, const at::Tensor& classes,
           const at::Tensor& indices = {});
  void reset() { *this = WrongImages(most_); }

  /// Worst first, at most as many as there were; undefined where there were none. losses and logits
  /// are float32.
  const at::Tensor& images() const { return images_; }
  const at::Tensor& logits() const { return logits_; }
  const at::Tensor& classes() const { return classes_; }
  const at::Tensor& losses() const { return losses_; }
  const at::Tensor& indices() const { return indices_; }

 private:
  int64_t most_;
  at::Tensor images_, logits_, classes_, losses_, indices_;
};

}  // namespace composer
