// Writes details of a run's last evaluation.
#pragma once

#include <filesystem>

#include "composer/loop/algorithm.h"
#include "composer/loop/loader.h"
#include "nn/network/metrics.h"
#include "nn/network/wrong_images.h"

namespace composer {

/// After each whole evaluation <folder>/evaluation.json: epoch, batch, samples, num_classes,
/// per_class (accuracies by class index, null for those without samples), confusion (what is not 0:
/// [class, taken for, samples]), and `wrong`, the images of the highest loss, which lie beside it
/// as PNG files of at most 192 pixels a side: class, loss, probability of the class, the likeliest
/// classes with theirs, and, where the loader tells, `path` (Loader::sample_name) and number of the
/// `sample`. Counts are of all ranks; images of the first rank's share
/// (all_ranks says whether that is everything). What cannot be written is left out with a warning.
/// Nothing of an evaluation on another set than val_dataset, or whose targets are values.
/// A run that goes on from before the evaluation in that file takes it away.
class EvaluationRecorder : public Callback {
 public:
  static constexpr int64_t most_images = 24;

  /// folder: the run's. normalization: of the evaluation's images.
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
