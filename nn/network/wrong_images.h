// The images with the highest losses.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// Keeps the samples of highest cross-entropy without waiting for the device.
class WrongImages {
 public:
  explicit WrongImages(int64_t most) : most_(most) {}

  /// input [N, C, H, W], with the same C, H and W in every call; logits [N, num_classes] of any
  /// floating type; classes int64 [N]; all on one device. indices: int64 [N] on the CPU, the
  /// samples' indices in their data set; undefined in every call where they are unknown. Copies
  /// only images that are among the worst so far.
  void add(const at::Tensor& input, const at::Tensor& logits, const at::Tensor& classes,
           const at::Tensor& indices = {});
  void reset() { *this = WrongImages(most_); }

  /// The worst first, at most `most` of them; undefined before the first sample. losses and logits
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
