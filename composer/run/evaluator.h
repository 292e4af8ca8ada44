// Evaluation and prediction.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "composer/logging/logger.h"
#include "composer/loop/engine.h"
#include "composer/loop/loader.h"
#include "composer/loop/state.h"
#include "nn/network/metrics.h"
#include "nn/stateful.h"

namespace composer {

/// Evaluates on one set.
class Evaluator : public Stateful {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;
  /// Logits [N, num_classes] float32 on the CPU, and the batch's classes.
  using Receive = std::function<void(const at::Tensor& logits, const at::Tensor& classes)>;

  /// set: the set's name, "eval" for val_dataset. loader: the set's loader; may be null. interval:
  /// the interval of evaluations during training. Keeps references to `state` and `engine`.
  Evaluator(State& state, Engine& engine, std::string set, std::shared_ptr<Loader> loader,
            Time interval);

  const std::string& set() const { return set_; }
  const Time& interval() const { return times_.interval(); }
  /// The set's loader; may be null.
  const Loader* loader() const { return loader_.get(); }

  /// Whether an evaluation is due after a batch, or after an epoch's end. last: training has ended.
  bool due(bool epoch_end, bool last) const;

  /// Evaluates, and logs the metrics as metrics/<set>/<name>. Empty without a loader, or if a
  /// signal ended the evaluation. The network's mode and the batch are unchanged. confusion: if not
  /// null, it counts every sample.
  Metrics run(ConfusionMatrix* confusion = nullptr);

  void predict(Loader& loader, const Receive& receive);

  /// The batch after which the last complete evaluation ran; -1 before the first.
  int64_t evaluated_batch() const { return evaluated_batch_; }
  void set_evaluated_batch(int64_t batch) { evaluated_batch_ = batch; }
  /// Sets the end of the last evaluation, in seconds of the run's clock.
  void done_at(double seconds) { times_.done_at(seconds); }

  /// The state, without the batch of val_dataset's evaluation, which checkpoints store by
  /// themselves.
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  void show_progress(Progress::Phase phase, int64_t batches);
  at::ScalarType type_of_input();

  State& state_;
  Engine& engine_;
  std::string set_;
  std::shared_ptr<Loader> loader_;
  Repetition times_;
  std::optional<at::ScalarType> input_type_;  ///< set at the first batch
  int64_t evaluated_batch_ = -1;
};

}  // namespace composer
