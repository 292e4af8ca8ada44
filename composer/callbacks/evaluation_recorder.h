// Writes details of a run's last evaluation.
#pragma once

#include <filesystem>

#include "composer/loop/algorithm.h"
#include "composer/loop/loader.h"
#include "nn/network/metrics.h"
#include "nn/network/wrong_images.h"

namespace composer {

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
