// The training loop. event.h draws it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/run_context.h"
#include "composer/logging/logger.h"
#include "composer/logging/sinks.h"
#include "composer/loop/engine.h"
#include "composer/loop/loader.h"
#include "composer/loop/state.h"
#include "composer/recipe/options.h"
#include "composer/run/evaluator.h"
#include "composer/run/feed.h"
#include "composer/run/run_session.h"
#include "composer/run/starting_point.h"
#include "composer/run/train_step.h"
#include "nn/distributed/ranks.h"
#include "nn/optimization/optimizer.h"
#include "nn/optimization/scheduler.h"

namespace composer {

/// A further evaluation set.
struct EvaluationSet {
  std::string name;  ///< the set's name in its metrics: metrics/<name>/Accuracy
  std::shared_ptr<Loader> loader;
  std::optional<Time> interval{};          ///< the interval; none: the run's eval_interval
  std::vector<std::string> class_names{};  ///< class names by index; may be empty
};

/// The parts of a run.
struct TrainerParts {
  explicit TrainerParts(RunContext made = read_run_context()) : context(std::move(made)) {}

  RunContext context;
  TrainerOptions options;
  std::optional<at::Device> device;  ///< the resolved options.device; nothing: not resolved yet
  std::shared_ptr<Model> model;
  std::shared_ptr<Loader> train_loader;  ///< may be null for evaluation and prediction only
  std::shared_ptr<Loader> eval_loader;   ///< may be null
  std::shared_ptr<Optimizer> optimizer;  ///< may be null without a train_loader
  std::vector<std::shared_ptr<Scheduler>> schedulers;
  std::vector<Member<Algorithm>> algorithms;
  std::vector<Member<Callback>> callbacks;
  std::vector<std::shared_ptr<LogSink>> loggers;
  std::string recipe;  ///< the resolved recipe, for the run folder and checkpoints; may be empty
  std::vector<std::string> class_names;  ///< class names by index, for checkpoints; may be empty
  bool console = true;                   ///< show progress on standard error
  Ranks ranks;  ///< the ranks that train together; each process has its own TrainerParts
  /// Recorder for cuda_graph; null: the device's own.
  std::shared_ptr<StepRecorder> step_recorder{};
  std::vector<EvaluationSet> evaluators{};  ///< further sets beside eval_loader
};

class Trainer {
 public:
  using Metrics = Evaluator::Metrics;

  /// Touches neither files nor devices.
  explicit Trainer(TrainerParts parts);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Adds an algorithm or a callback before the run starts.
  template <class T, class... Args>
  void add(std::string name, Args&&... args) {
    using Base = std::conditional_t<std::is_base_of_v<Algorithm, T>, Algorithm, Callback>;
    engine_.add(Member<Base>{std::move(name), std::make_shared<T>(std::forward<Args>(args)...),
                             subscriptions<T>()});
  }

  /// Does surgery (event init), moves the model to the device, attaches the optimizer and loads the
  /// checkpoint. Later calls do nothing. UserError if the recipe or load_path does not fit.
  void prepare();

  /// Trains to max_duration in its own run folder. A signal ends the run early, with a
  /// checkpoint: see Summary::status. UserError for options out of their range, and parts that are
  /// missing.
  Summary fit();

  /// Evaluates on all of eval_loader, with load_path's weights if given.
  Metrics evaluate(ConfusionMatrix* confusion = nullptr);
  /// The metrics of all sets by their full names, "metrics/eval/Accuracy". confusion: counts
  /// eval_loader's samples.
  Metrics evaluate_all(ConfusionMatrix* confusion = nullptr);

  /// Calls `receive` with the logits of each batch of `loader`, in order. Classes are the loader's;
  /// for Dataset::open_files() they are the indices of the samples.
  void predict(Loader& loader, const Evaluator::Receive& receive);

  /// The origin of load_path's weights, from prepare() on.
  const Provenance& loaded() const { return loaded_; }

  const State& state() const { return state_; }
  const TrainerOptions& options() const { return options_; }
  Engine& engine() { return engine_; }
  const RunFolder& folder() const { return session_.folder(); }
  /// The signal that some rank has received and all ranks act upon; 0 without one.
  int signal() const { return session_.signal(); }

 private:
  /// Opens the session's folder and everything that logs.
  void open_run();
  /// Writes about.json, and adds the callbacks that record times and evaluations.
  void describe_run(const std::vector<std::string>& header);
  void train();   ///< RunSession::Loop::train
  void finish();  ///< RunSession::Loop::finish
  void flush();   ///< RunSession::Loop::flush
  void start_loader();
  void train_epoch();
  RawBatch next_training_batch();
  void train_batch(RawBatch batch);
  void end_epoch();
  bool stopping();
  void schedule_learning_rate();
  void check_loss();
  /// Sets the run's time to the first rank's clock.
  void share_clock();
  /// Waits for the device, so that queued work counts as training time.
  void wait_for_device();

  /// The evaluators that have a loader, val_dataset's first.
  std::vector<Evaluator*> evaluators();
  /// The metrics of one set, by their own names.
  Metrics run_evaluation(Evaluator& evaluator, ConfusionMatrix* confusion = nullptr);
  /// Evaluates on the sets that are due and adds their metrics by full name. Returns whether any
  /// was.
  bool run_evaluations(bool epoch_end, bool last, Metrics& metrics);
  void evaluate_if_due(bool epoch_end);

  /// The parts that checkpoints hold beside weights and optimizer, by name.
  std::vector<std::pair<std::string, Stateful*>> checkpoint_parts();
  void restore(const StartingPoint& start);
  void resume(const StartingPoint& start, Checkpoint checkpoint);
  Checkpoint snapshot();
  void save_if_asked();
  /// Begins to write a checkpoint. replace: even if this batch is saved already.
  void save(bool replace = false, bool best = false);

  TrainerOptions options_;
  RunContext context_;
  std::shared_ptr<Loader> train_loader_;
  std::optional<at::Device> device_;
  std::vector<std::shared_ptr<Scheduler>> schedulers_;
  std::string recipe_;
  std::string data_digest_;  ///< digest of train_loader_, from prepare() on
  Provenance loaded_;
  bool console_;  ///< a console sink is wanted and not yet added

  State state_;
  Engine engine_;
  Logger logger_;
  std::shared_ptr<LossGuard> loss_guard_;  ///< set from fit() on
  Evaluator evaluator_;                    ///< evaluates on val_dataset
  std::vector<std::unique_ptr<Evaluator>> further_evaluators_;
  std::optional<TrainStep> step_;  ///< set from prepare() on
  std::optional<Feed> feed_;       ///< batches of train_loader_, in fit()
  at::ScalarType input_type_ = at::kFloat;
  std::shared_ptr<StepRecorder> step_recorder_;
  RunClock clock_;
  bool prepared_ = false;
  RunSession session_;
};

}  // namespace composer
