// The subcommand bench step: what a training step costs.
#include "cli/bench_step.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "cli/operator_costs.h"
#include "composer/loop/algorithm.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/profiling/conversions.h"
#include "nn/profiling/timer.h"

namespace composer {
namespace {

/// Gives the same batch of noise again and again.
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

/// Times groups of steps after the warm-up; synchronizes the device only between groups. ranges:
/// whether to time the loop's ranges too.
class StepTimer : public Callback {
 public:
  StepTimer(int64_t warmup, int64_t steps, bool ranges)
      : warmup_(warmup), steps_(steps), listen_(ranges) {}

  void batch_end(const State& state, Logger&, RunControl&) override {
    const int64_t done = state.time.batch - warmup_;
    if (done < 0 || done % steps_ != 0) return;
    synchronize(state.device);
    if (done > 0) {
      seconds.push_back(steady_seconds() - begin_);
      process_seconds.push_back(cpu_seconds() - cpu_begin_);
    }
    if (done == 0 && listen_) timer_.emplace(Timer::Listen::here);
    if (timer_) ranges = timer_->totals().here;
    begin_ = steady_seconds(), cpu_begin_ = cpu_seconds();
  }

  std::vector<double> seconds,
      process_seconds;  ///< one number per group: wall time; CPU time of all threads
  RangeTotals ranges;   ///< sums over all groups

 private:
  static double cpu_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
  }

  int64_t warmup_, steps_;
  bool listen_;
  std::optional<Timer> timer_;
  double begin_ = 0, cpu_begin_ = 0;
};

/// Times the operators of `steps` steps after the warm-up, then counts conversions in `steps`
/// further steps, as inspecting operators' inputs takes time.
class OperatorMonitor : public Callback {
 public:
  OperatorMonitor(int64_t warmup, int64_t steps) : warmup_(warmup), steps_(steps) {}

  void batch_end(const State& state, Logger&, RunControl&) override {
    const int64_t done = state.time.batch - warmup_;
    if (done == 0) {
      synchronize(state.device);
      timer_.emplace(Timer::Listen::operators);
      begin_ = steady_seconds();
    } else if (done == steps_) {
      synchronize(state.device);
      costs_.seconds = steady_seconds() - begin_;
      auto totals = timer_->totals();
      timer_.reset();
      costs_.steps = steps_;
      costs_.operators = with_readable_names(totals.operators),
      costs_.ranges = std::move(totals.here);
      conversions_.emplace();
    } else if (done == 2 * steps_) {
      costs_.conversions = conversions_->count();
      conversions_.reset();
    }
  }
  /// The number of batches to train.
  int64_t batches() const { return warmup_ + 2 * steps_; }
  /// Complete after batches() batches.
  const OperatorCosts& costs() const { return costs_; }

 private:
  int64_t warmup_, steps_;
  std::optional<Timer> timer_;
  std::optional<ConversionCounter> conversions_;
  double begin_ = 0;
  OperatorCosts costs_;
};

OperatorCosts measure_operators(const StepSetting& setting) {
  auto parts = timed_parts(setting);
  parts.options.log_interval = {1 << 20, TimeUnit::batch};
  const auto monitor = std::make_shared<OperatorMonitor>(3, setting.steps);
  run_steps(std::move(parts), {"bench", monitor, subscriptions<OperatorMonitor>()},
            monitor->batches(), setting);
  return monitor->costs();
}

}  // namespace

Recipe recipe_of(const StepSetting& setting) {
  Words algorithms = {"--algorithms", "channels_last", "label_smoothing"};
  Words with_values;
  for (const auto& algorithm : setting.algorithms) {
    const auto name = algorithm.substr(0, algorithm.find(':'));
    if (std::ranges::find(algorithms, name) == algorithms.end()) algorithms.push_back(name);
    if (name != algorithm) with_values.push_back(algorithm);
  }
  const bool small =
      setting.model == "resnet9" || setting.model == "resnet20" || setting.model == "resnet56";
  const auto yaml =
      "model: {" + std::string(small ? "resnet_cifar" : "resnet") +
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
  times.seconds = timer->seconds, times.cpu_seconds = timer->process_seconds;
  times.device = summary.device, times.peak_memory_bytes = summary.peak_memory_bytes;
  const double all = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
  for (auto& [name, fraction] : times.hook_fractions)
    if (const auto found = timer->ranges.find(name); found != timer->ranges.end())
      fraction = found->second.seconds / all;
  return times;
}

int bench_step_command(const Words& words) {
  CLI::App app(
      "A training step on one batch in memory: SGD with Nesterov momentum, channels_last, label "
      "smoothing 0.1.",
      "bench step");
  StepSetting setting{.algorithms = {}};
  bool operators = false;
  app.option_defaults()->always_capture_default();
  app.add_option("--model", setting.model, "the network")->check(word_of(step_models));
  app.add_option("--batch_size", setting.batch_size, "images a step")->check(positive());
  app.add_option("--resolution", setting.resolution, "pixels a side")->check(positive());
  app.add_option("--precision", setting.precision, "arithmetic of forward and loss")
      ->check(word_of(step_precisions));
  app.add_option("--device", setting.device, "where to compute")->check(word_of(step_devices));
  app.add_option("--cuda_graph", setting.cuda_graph, "whether a GPU replays the step")
      ->check(word_of(step_cuda_graphs));
  app.add_option("--algorithms", setting.algorithms,
                 "beside channels_last and label_smoothing; with values: 'cutout: {length: 0.3}'")
      ->default_str("");
  app.add_option("--steps", setting.steps, "steps a repeat")->check(positive());
  app.add_option("--repeats", setting.repeats, "number of repeats; their median is reported")
      ->check(positive());
  app.add_flag("--operators", operators,
               "what each operator and range takes of a step, on the host, and how many copies "
               "change type or layout: of further steps");
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  auto parts = timed_parts(setting);
  const int64_t warmup = parts.device->is_cpu() ? 3 : 3 + CapturedSteps::warm_ups;
  const auto [seconds, cpu_seconds, hook_fractions, device, peak] =
      time_steps(std::move(parts), warmup, setting, true);
  const auto costs = operators ? std::optional(measure_operators(setting)) : std::nullopt;
  std::vector<double> rates;
  for (const double time : seconds)
    rates.push_back(static_cast<double>(setting.batch_size * setting.steps) / time);
  const auto megabytes = [](int64_t bytes) { return bytes >> 20; };
  if (json) {
    nlohmann::ordered_json result{{"model", setting.model},
                                  {"batch_size", setting.batch_size},
                                  {"resolution", setting.resolution},
                                  {"precision", setting.precision},
                                  {"device", device},
                                  {"algorithms", setting.algorithms},
                                  {"images_per_s", median(rates)},
                                  {"all", rates},
                                  {"hook_fractions", hook_fractions},
                                  {"peak_memory_mb", megabytes(peak)},
                                  {"max_rss_mb", megabytes(peak_memory_bytes(at::kCPU))}};
    if (costs) result.update(json_of(*costs));
    std::cout << result << '\n';
  } else {
    std::cout << setting.model << ", batch " << setting.batch_size << ", " << setting.resolution
              << " px, " << setting.precision << ", " << device << ": " << median(rates)
              << " images/s, " << megabytes(peak) << " MiB\n";
    if (costs) print_operator_costs(*costs, std::cout);
  }
  return 0;
}

}  // namespace composer
