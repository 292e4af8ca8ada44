// What flows through the loop: images and their targets.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rank_environment.h"

namespace composer {

/// What the model should say of each sample: its class, or `values`. Methods that mix or soften
/// labels set the optional parts, which losses understand without a dense target: with
/// t = other_weight,
///   loss = (1 - t) * loss(classes) + t * loss(other_classes), each with label smoothing
///   `smoothing`.
struct Target {
  at::Tensor classes;        ///< int64 [N]; undefined where there are values
  at::Tensor other_classes;  ///< int64 [N], or undefined
  at::Tensor other_weight;   ///< float32 [N] in [0, 1], defined exactly when other_classes is
  double smoothing = 0;      ///< in [0, 1]: this share of the weight is spread over all classes
  at::Tensor values{};       ///< float32 [N, K], one for each output: whether labels hold (in
                             ///< [0, 1]), or numbers; undefined where there are classes

  /// float32 [N, num_classes] of probabilities, all of the above applied.
  at::Tensor dense(int64_t num_classes) const;
  /// int64 [N], the class of each sample that weighs more; `classes` where both weigh the same.
  at::Tensor heavier() const;
  Target slice(int64_t begin, int64_t end) const;
  /// The samples at these places, int64 [n].
  Target at_places(const at::Tensor& places) const;
  /// Every tensor, which may be undefined.
  std::vector<at::Tensor*> tensors() { return {&classes, &other_classes, &other_weight, &values}; }
  Target to(at::Device device) const;
};

/// What loaders hand out. images: uint8 [N, H, W, C], unless the loader was asked for normalised
/// ones, for a loop of one's own. `target`: on the same device.
struct RawBatch {
  at::Tensor images;
  Target target;
  at::Tensor indices{};  ///< int64 [N] on the CPU: each sample's number in its set
                         ///< (Loader::sample_name); undefined where the loader does not tell
  std::optional<Share> share{};  ///< the place of `images` in the batch of all ranks; nothing where
                                 ///< samples may have been left out, which whoever does it resets

  int64_t samples() const { return images.defined() ? images.size(0) : 0; }
  RawBatch to(at::Device device) const;
};

/// What networks take. `input`: normalised float32 (or see input_type in feed.h) [N, C, H, W], with
/// channels-last strides exactly when channels_last is on. `target`: on the same device.
struct Batch {
  at::Tensor input;
  Target target;

  int64_t samples() const { return input.defined() ? input.size(0) : 0; }

  /// At most `parts` views, in order, none of them empty; their sizes differ by one at most.
  std::vector<Batch> split(int64_t parts) const;
};

}  // namespace composer
