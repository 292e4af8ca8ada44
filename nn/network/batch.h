// Batches of the training loop: images and their targets.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rank_environment.h"

namespace composer {

class Ranks;

/// The right answer for each sample: its class, or `values`. Methods that mix or soften labels set
/// the optional members, which losses read without a dense target: with t = other_weight,
///     loss = (1 - t) * loss(classes) + t * loss(other_classes),
/// each with label smoothing `smoothing`.
struct Target {
  at::Tensor classes;        ///< int64 [N]; undefined for a target of values
  at::Tensor other_classes;  ///< int64 [N], or undefined
  at::Tensor other_weight;   ///< float32 [N] in [0, 1], defined exactly when other_classes is
  double smoothing = 0;      ///< fraction of the weight that is spread over all classes, in [0, 1]
  /// Float32 [N, K], one per output: labels in [0, 1], or numbers; undefined for a target of
  /// classes.
  at::Tensor values{};

  /// float32 [N, num_classes] of probabilities, with mixing and smoothing applied.
  at::Tensor dense(int64_t num_classes) const;
  /// int64 [N], each sample's class of larger weight; `classes` where both weigh the same.
  at::Tensor heavier() const;
  Target slice(int64_t begin, int64_t end) const;
  /// The samples at these indices, int64 [n].
  Target at_places(const at::Tensor& places) const;
  /// All tensors; each may be undefined.
  std::vector<at::Tensor*> tensors() { return {&classes, &other_classes, &other_weight, &values}; }
  Target to(at::Device device) const;
};

/// A loader's batch. images: uint8 [N, H, W, C], or normalised where the loader was asked for that
/// (in a loop of one's own). `target`: on the same device.
struct RawBatch {
  at::Tensor images;
  Target target;
  /// Int64 [N] on the CPU: each sample's index in its data set (Loader::sample_name); undefined
  /// where the loader does not give it.
  at::Tensor indices{};
  /// The position of `images` in the batch of all ranks; nothing where samples may have been left
  /// out: code that leaves some out resets it.
  std::optional<Share> share{};

  int64_t samples() const { return images.defined() ? images.size(0) : 0; }
  RawBatch to(at::Device device) const;
};

/// A network's batch. `input`: normalised float32 (or input_type in feed.h) [N, C, H, W], with
/// channels-last strides exactly when channels_last is on. `target`: on the same device.
struct Batch {
  at::Tensor input;
  Target target;

  int64_t samples() const { return input.defined() ? input.size(0) : 0; }

  /// At most `parts` views, in order, none of them empty; their sizes differ by one at most.
  std::vector<Batch> split(int64_t parts) const;
};

/// Returns the position of this rank's share, `batch`, in the batch of all ranks. Where the loader
/// does not give it, samples may be missing: the ranks exchange their counts, and where a rank has
/// no samples left, the remaining ones are shared out anew and `batch` changes. Ranks that have
/// rows of the same images count as one. RunError if there are fewer samples than shares, if ranks
/// of the same images have read different numbers of samples, or if `batch` does not have as many
/// samples as the loader said.
Share take_share(RawBatch& batch, const Ranks& all);

}  // namespace composer
