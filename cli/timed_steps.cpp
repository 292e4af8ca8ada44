#include "cli/timed_steps.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/process/interrupt.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "nn/device/device.h"
#include "nn/profiling/timer.h"

namespace composer {
namespace {

/// One batch of noise, again and again: nothing is loaded.
class FixedBatchLoader : public Loader {
 public:
  FixedBatchLoader(int64_t batch_size, int64_t resolution, int64_t num_classes, at::Device device)
      : normalization_{{127.5, 127.5, 127.5}, {73.6, 73.6, 73.6}}, size_{resolution, resolution} {
    batch_.images = at::randint(256, {batch_size, resolution, resolution, 3}, at::kByte).to(device);
    batch_.target.classes = at::randint(num_classes, {batch_size}, at::kLong).to(device);
  }
  int64_t batches_per_epoch() const override { return 1 << 20; }
  int64_t samples_per_epoch() const override { return batches_per_epoch() * batch_.samples(); }
  ImageSize image_size() const override { return size_; }
  const Normalization& normalization() const override { return normalization_; }
  void start(int64_t, int64_t, SizePlan) override {}
  void add_transform(SampleTransform) override {}
  std::optional<RawBatch> next() override { return batch_; }

 private:
  Normalization normalization_;
  ImageSize size_;
  RawBatch batch_;
};

/// Seconds of each group of steps after the warm-up, the device waited for at the borders of groups
/// only, and with `ranges` those of the loop's.
class StepTimer : public Callback {
 public:
  StepTimer(int64_t warmup, int64_t steps, bool ranges)
      : warmup_(warmup), steps_(steps), listen_(ranges) {}

  void batch_end(const State& state, Logger&, RunControl&) override {
    const int64_t done = state.time.batch - warmup_;
    if (done < 0 || done % steps_ != 0) return;
    synchronize(state.device);
    const double time = steady_seconds(), cpu = cpu_seconds();
    if (done > 0) seconds_.push_back(time - begin_), cpu_seconds_.push_back(cpu - cpu_begin_);
    if (done == 0 && listen_) timer_.emplace(Timer::Listen::here);
    if (timer_) ranges_ = timer_->totals().here;
    begin_ = steady_seconds(), cpu_begin_ = cpu_seconds();
  }
  const std::vector<double>& seconds() const { return seconds_; }
  /// Of all threads of the process.
  const std::vector<double>& process_seconds() const { return cpu_seconds_; }
  /// Of all groups.
  const RangeTotals& ranges() const { return ranges_; }

 private:
  int64_t warmup_, steps_;
  bool listen_;
  std::optional<Timer> timer_;
  RangeTotals ranges_;
  static double cpu_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
  }

  double begin_ = 0, cpu_begin_ = 0;
  std::vector<double> seconds_, cpu_seconds_;
};

const Words imagenet_models{"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
const Words cifar_models{"resnet9", "resnet20", "resnet56"};

bool is_cifar_model(const std::string& name) {
  return std::ranges::find(cifar_models, name) != cifar_models.end();
}

void check_words(const StepSetting& setting) {
  check_word("--model", setting.model, step_models());
  check_word("--precision", setting.precision, step_precisions);
  check_word("--device", setting.device, step_devices);
  check_word("--cuda_graph", setting.cuda_graph, step_cuda_graphs);
}

}  // namespace

Words step_models() {
  auto models = imagenet_models;
  models.insert(models.end(), cifar_models.begin(), cifar_models.end());
  return models;
}

Recipe recipe_of(const StepSetting& setting) {
  check_words(setting);
  Words algorithms = {"--algorithms", "channels_last", "label_smoothing"};
  Words with_values;
  for (const auto& algorithm : setting.algorithms) {
    const auto name = algorithm.substr(0, algorithm.find(':'));
    if (std::ranges::find(algorithms, name) == algorithms.end()) algorithms.push_back(name);
    if (name != algorithm) with_values.push_back(algorithm);
  }
  const auto yaml =
      "model: {" + std::string(is_cifar_model(setting.model) ? "resnet_cifar" : "resnet") +
      ": {model_name: " + setting.model + "}}\n" +
      "train_dataset: {synthetic: {}}\n"
      "optimizer: {sgd: {lr: 0.01, momentum: 0.9, weight_decay: 5e-5, nesterov: true}}\n"
      "algorithms: {" +
      joined(with_values) + "}\nprecision: " + setting.precision + "\ndevice: " + setting.device +
      "\ncuda_graph: " + setting.cuda_graph + "\nrun_dir: none\n" +
      "train_batch_size: " + std::to_string(setting.batch_size) +
      "\nmax_duration: " + std::to_string(3 + setting.steps * setting.repeats) + "ba\n";
  return resolve({"bench", yaml}, algorithms);
}

TrainerParts timed_parts(const StepSetting& setting) {
  const auto recipe = recipe_of(setting);
  auto parts = assemble_model(recipe);
  parts.optimizer = recipe.optimizer->build();
  return parts;
}

Summary run_steps(TrainerParts parts, Member<Callback> monitor, int64_t batches,
                  const StepSetting& setting) {
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.console = false;
  parts.train_loader = std::make_shared<FixedBatchLoader>(
      setting.batch_size, setting.resolution, parts.model->num_classes(), *parts.device);
  parts.callbacks.push_back(std::move(monitor));
  Trainer trainer(std::move(parts));
  auto summary = trainer.fit();
  if (summary.signal != 0) throw Interrupted{summary.signal};
  return summary;
}

StepTimes time_steps(TrainerParts parts, int64_t warmup, const StepSetting& setting, bool hooks) {
  StepTimes times;
  for (const auto& algorithm : parts.algorithms)
    if (hooks) times.hook_fractions[algorithm.name] = 0;
  parts.options.log_interval = {10, TimeUnit::batch};
  const auto timer = std::make_shared<StepTimer>(warmup, setting.steps, hooks);
  const auto summary = run_steps(std::move(parts), {"bench", timer, subscriptions<StepTimer>()},
                                 warmup + setting.steps * setting.repeats, setting);
  times.seconds = timer->seconds(), times.cpu_seconds = timer->process_seconds();
  times.device = summary.device, times.peak_memory_bytes = summary.peak_memory_bytes;
  const double all = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
  for (auto& [name, fraction] : times.hook_fractions)
    if (const auto found = timer->ranges().find(name); found != timer->ranges().end())
      fraction = found->second.seconds / all;
  return times;
}

}  // namespace composer
