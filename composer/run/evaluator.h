// Looks at what a network has learnt: evaluation and prediction.
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

/// On one set.
class Evaluator : public Stateful {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;
  /// Logits [N, num_classes] float32 on the CPU, and the batch's classes.
  using Receive = std::function<void(const at::Tensor& logits, const at::Tensor& classes)>;

  /// set: its name, "eval" for val_dataset. loader: of the set; may be null. interval: how often a
  /// training run evaluates. Refers to `state` and `engine`.
  Evaluator(State& state, Engine& engine, std::string set, std::shared_ptr<Loader> loader,
            Time interval);

  const std::string& set() const { return set_; }
  const Time& interval() const { return times_.interval(); }
  /// Null without one.
  const Loader* loader() const { return loader_.get(); }

  /// Whether an evaluation belongs here: after a batch, or after an epoch's end. last: nothing is
  /// trained after it.
  bool due(bool epoch_end, bool last) const;

  /// The metrics of the whole set, logged as metrics/<set>/<name>; empty without a loader or when a
  /// signal ended it. The network's mode and the batch are left as they were.
  /// confusion: where not null, it gathers every sample too.
  Metrics run(ConfusionMatrix* confusion = nullptr);

  void predict(Loader& loader, const Receive& receive);

  /// After which batch the last whole evaluation was; -1: none.
  int64_t evaluated_batch() const { return evaluated_batch_; }
  void set_evaluated_batch(int64_t batch) { evaluated_batch_ = batch; }
  /// The last evaluation was over at so many seconds of the run's clock.
  void done_at(double seconds) { times_.done_at(seconds); }

  /// Without what checkpoints hold anyway: the batch of val_dataset's.
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
  std::optional<at::ScalarType> input_type_;  ///< from the first batch on
  int64_t evaluated_batch_ = -1;
};

}  // namespace composer
