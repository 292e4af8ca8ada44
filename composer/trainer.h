// The training loop. The only one: see event.h for its picture.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "composer/engine.h"
#include "composer/loader.h"
#include "composer/logging/logger.h"
#include "composer/logging/sinks.h"
#include "composer/network/metrics.h"
#include "composer/optimization/optimizer.h"
#include "composer/optimization/scheduler.h"
#include "composer/options.h"
#include "composer/state.h"
#include "composer/storage/checkpoint.h"
#include "composer/storage/run_folder.h"

namespace composer {

/// What a run is made of.
struct TrainerParts {
  TrainerOptions options;
  std::shared_ptr<Model> model;
  std::shared_ptr<Loader> train_loader;  ///< may be null for evaluation and prediction only
  std::shared_ptr<Loader> eval_loader;   ///< may be null
  std::shared_ptr<Optimizer> optimizer;  ///< may be null without a train_loader
  std::vector<std::shared_ptr<Scheduler>> schedulers;
  std::vector<Member<Algorithm>> algorithms;
  std::vector<Member<Callback>> callbacks;
  std::vector<std::shared_ptr<LogSink>> loggers;
  std::string recipe;  ///< the resolved recipe, for the run folder and checkpoints; may be empty
};

class Trainer {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;

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

  /// Surgery (event init), move to the device, optimizer, checkpoint. The first call does it, later
  /// ones nothing. UserError when the recipe or what load_path names does not fit.
  void prepare();

  /// Trains to max_duration in its own run folder. A signal ends it early, saved: see
  /// Summary::status.
  Summary fit();

  /// The metrics of the whole evaluation set. load_path's weights, if given.
  Metrics evaluate();

  /// Logits [N, num_classes] float32 on the CPU of each batch of `loader`, in order, and the
  /// batch's classes (of Dataset::open_files: which sample each row is).
  using Receive = std::function<void(const at::Tensor& logits, const at::Tensor& classes)>;
  void predict(Loader& loader, const Receive& receive);

  const State& state() const { return state_; }
  Engine& engine() { return engine_; }
  const RunFolder& folder() const { return folder_; }

 private:
  void restore();
  void resume(const std::filesystem::path& path, Checkpoint checkpoint);
  void hand_out(std::map<std::string, StateDict>& parts);
  void train();
  void train_epoch();
  void train_batch(Batch batch);
  at::Tensor train_part(const Batch& part);
  /// The model on state_.batch under the run's precision; the same for training, evaluation and
  /// prediction.
  void forward();
  at::Tensor forward_backward(const std::vector<Batch>& microbatches);
  at::Tensor loss_of(const at::Tensor& outputs, const Target& target, double share);
  void backward(const at::Tensor& loss);
  void recompute_gradients();
  void finish_gradients();
  void update_weights();
  void end_epoch();
  Metrics run_evaluation();
  void evaluate_if_due(bool epoch_end);
  void schedule_learning_rate();
  void count_hits(const Batch& microbatch);
  void log_accuracy();
  Batch to_device(const Batch& batch, const Loader& loader);
  void start_loader();
  static std::optional<Batch> next_batch(Loader& loader);
  bool stopping();

  Checkpoint snapshot() const;
  void check_epochs(const std::filesystem::path& path, const Checkpoint& checkpoint) const;
  /// What is queued belongs to training, not to what comes next.
  void wait_for_device();
  void save_if_asked();
  void save();
  Summary summarize(const std::string& status);
  double seconds() const;

  TrainerOptions options_;
  RunFolder folder_;
  std::shared_ptr<Loader> train_loader_, eval_loader_;
  std::vector<std::shared_ptr<Scheduler>> schedulers_;
  std::string recipe_;

  Schedule
      schedule_;  ///< the recipe's, for learning rates; an algorithm may shorten state_.schedule
  State state_;
  Engine engine_;
  Logger logger_;
  std::shared_ptr<SummarySink> summary_sink_;
  GradScaler scaler_;
  at::Tensor hits_;  ///< float64 [2] on the device: right answers and samples of this epoch's
                     ///< training batches
  /// What each microbatch of the batch went through the network as, for recompute_gradients.
  struct Pass {
    at::Tensor input;
    Target target;
    int64_t first_sample;
    double share;  ///< of the batch's samples
  };
  std::vector<Pass> passes_;
  bool prepared_ = false;
  int64_t evaluated_batch_ = -1, saved_batch_ = -1;

  double clock_start_ = 0;  ///< steady-clock seconds at time.seconds == 0
  /// What samples_per_second is counted from: the training batches of this process, the first ones
  /// left out.
  struct {
    int64_t batches = 0, samples = 0;
    double seconds = 0;
  } measured_;
};

}  // namespace composer
