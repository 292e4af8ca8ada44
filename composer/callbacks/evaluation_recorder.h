// Writes details of a run's last evaluation.
#pragma once

#include <filesystem>

#include "composer/loop/algorithm.h"
#include "nn/network/metrics.h"

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

/// Writes <folder>/evaluation.json after each complete evaluation: epoch, batch, samples,
/// num_classes, per_class (accuracies by class index, null for classes without samples), confusion
/// (the counts that are not 0: [class, predicted class, samples]), and `wrong`, the images of the
/// highest loss. They are PNG files of at most 192 pixels a side beside it, with class, loss,
/// probability of the class, the likeliest classes with their probabilities, and, if the loader
/// tells, `path` (Loader::sample_name) and number of the `sample`. Counts are those of all ranks;
/// images are of the first rank's share (all_ranks tells whether it is the only one). Files that
/// cannot be written are left out with a warning. Nothing is written for other sets than
/// val_dataset, or for target values. A run that is resumed from before the evaluation in the file
/// removes it.
class EvaluationRecorder : public Callback {
 public:
  static constexpr int64_t most_images = 24;

  /// folder: the run's folder. normalization: that of the evaluation's images.
  EvaluationRecorder(std::filesystem::path folder, Normalization normalization)
      : folder_(std::move(folder)), normalization_(std::move(normalization)) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_batch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  void write(const State& state) const;
  std::filesystem::path file() const { return folder_ / "evaluation.json"; }
  /// uint8 [N, H, W, C].
  at::Tensor pictures() const;

  const std::filesystem::path folder_;
  const Normalization normalization_;
  bool records_ = true;
  ConfusionMatrix confusion_{0};
  WrongImages wrong_{most_images};
};

}  // namespace composer
