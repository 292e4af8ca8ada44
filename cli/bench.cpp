// The subcommand bench: what a training step costs, and what the loop adds to it.
#include "cli/bench.h"

#include <stdlib.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine_use.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/bench_operators.h"
#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/image_monitor.h"
#include "composer/logging/tensorboard.h"
#include "composer/run/assemble.h"
#include "nn/device/device.h"
#include "nn/profiling/timer.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

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

class NothingAlgorithm : public Algorithm {
 public:
#define X(name, kind) \
  void name(State&) override {}
  COMPOSER_EVENTS(X)
#undef X
};

/// Forward, backward and update that cost next to nothing, so that what remains is the loop.
class StubModel : public Model {
 public:
  StubModel(int64_t batch_size, int64_t classes)
      : classes_(classes), logits_(at::zeros({batch_size, classes})) {
    weight_ = register_parameter("weight", at::zeros({}));
    register_buffer("logits", logits_);
  }
  at::Tensor forward(const at::Tensor&) override { return named_buffers()["logits"]; }
  at::Tensor loss(const at::Tensor&, const Target&, Over) override { return weight_.clone(); }
  int64_t num_classes() const override { return classes_; }

 private:
  int64_t classes_;
  at::Tensor weight_, logits_;
};

class StubOptimizer : public Optimizer {
 public:
  StubOptimizer() : Optimizer({}, {}) {}

 protected:
  void update(Update&) override {}
};

struct StepSetting {
  std::string model = "resnet50", precision = "amp_bf16", device = "auto", cuda_graph = "auto";
  int64_t batch_size = 16, resolution = 224, steps = 5, repeats = 3;
  Words algorithms;
};

const Words imagenet_models{"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
const Words cifar_models{"resnet9", "resnet20", "resnet56"};

bool is_cifar_model(const std::string& name) {
  return std::ranges::find(cifar_models, name) != cifar_models.end();
}

const Words precisions{"fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "bf16"};
const Words devices{"auto", "cpu", "gpu"};
const Words cuda_graph_words{"auto", "true", "false"};

Words step_models() {
  auto models = imagenet_models;
  models.insert(models.end(), cifar_models.begin(), cifar_models.end());
  return models;
}

void check_words(const StepSetting& setting) {
  check_word("--model", setting.model, step_models());
  check_word("--precision", setting.precision, precisions);
  check_word("--device", setting.device, devices);
  check_word("--cuda_graph", setting.cuda_graph, cuda_graph_words);
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

/// Trains on one batch again and again, so many times.
template <class Monitor>
Summary run_steps(TrainerParts parts, const std::shared_ptr<Monitor>& monitor, int64_t batches,
                  const StepSetting& setting) {
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.console = false;
  parts.train_loader = std::make_shared<FixedBatchLoader>(
      setting.batch_size, setting.resolution, parts.model->num_classes(), *parts.device);
  parts.callbacks.push_back({"bench", monitor, subscriptions<Monitor>()});
  Trainer trainer(std::move(parts));
  auto summary = trainer.fit();
  if (summary.signal != 0) throw Interrupted{summary.signal};
  return summary;
}

struct StepTimes {
  std::vector<double> seconds;                   ///< of each repeat's steps
  std::vector<double> cpu_seconds;               ///< the same, of all threads of the process
  std::map<std::string, double> hook_fractions;  ///< of the steps, by algorithm
  std::string device;
  int64_t peak_memory_bytes = 0;  ///< of the device
};

/// `hooks`: with the time in the algorithms' hooks.
StepTimes time_steps(TrainerParts parts, int64_t warmup, const StepSetting& setting, bool hooks) {
  StepTimes times;
  for (const auto& algorithm : parts.algorithms)
    if (hooks) times.hook_fractions[algorithm.name] = 0;
  parts.options.log_interval = {10, TimeUnit::batch};
  const auto timer = std::make_shared<StepTimer>(warmup, setting.steps, hooks);
  const auto summary =
      run_steps(std::move(parts), timer, warmup + setting.steps * setting.repeats, setting);
  times.seconds = timer->seconds(), times.cpu_seconds = timer->process_seconds();
  times.device = summary.device, times.peak_memory_bytes = summary.peak_memory_bytes;
  const double all = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
  for (auto& [name, fraction] : times.hook_fractions)
    if (const auto found = timer->ranges().find(name); found != timer->ranges().end())
      fraction = found->second.seconds / all;
  return times;
}

TrainerParts step_parts(const StepSetting& setting) {
  const auto recipe = recipe_of(setting);
  auto parts = assemble_model(recipe);
  parts.optimizer = recipe.optimizer->build();
  return parts;
}

OperatorCosts measure_operators(const StepSetting& setting) {
  auto parts = step_parts(setting);
  parts.options.log_interval = {1 << 20, TimeUnit::batch};
  const auto monitor = std::make_shared<OperatorMonitor>(3, setting.steps);
  run_steps(std::move(parts), monitor, monitor->batches(), setting);
  return monitor->costs();
}

int step_command(const Words& words) {
  CLI::App app(
      "A training step on one batch in memory: SGD with Nesterov momentum, channels_last, label "
      "smoothing 0.1.",
      "bench step");
  StepSetting setting{.algorithms = {}};
  bool json = false, operators = false;
  app.add_option("--model", setting.model, "the network")
      ->capture_default_str()
      ->check(choices(step_models()));
  app.add_option("--batch_size", setting.batch_size, "images a step")
      ->capture_default_str()
      ->check(positive());
  app.add_option("--resolution", setting.resolution, "pixels a side")
      ->capture_default_str()
      ->check(positive());
  app.add_option("--precision", setting.precision, "arithmetic of forward and loss")
      ->capture_default_str()
      ->check(choices(precisions));
  app.add_option("--device", setting.device, "where to compute")
      ->capture_default_str()
      ->check(choices(devices));
  app.add_option("--cuda_graph", setting.cuda_graph, "whether a GPU replays the step")
      ->capture_default_str()
      ->check(choices(cuda_graph_words));
  app.add_option("--algorithms", setting.algorithms,
                 "beside channels_last and label_smoothing; with values: 'cutout: {length: 0.3}'");
  app.add_option("--steps", setting.steps, "steps a repeat")
      ->capture_default_str()
      ->check(positive());
  app.add_option("--repeats", setting.repeats, "the median of so many is reported")
      ->capture_default_str()
      ->check(positive());
  app.add_flag("--operators", operators,
               "what each operator and range takes of a step, on the host, and how many copies "
               "change type or layout: of further steps");
  app.add_flag("--json", json, "one JSON object on standard output");
  if (!parse(app, words)) return 0;

  auto parts = step_parts(setting);
  const int64_t warmup = parts.device->is_cpu() ? 3 : 3 + StepGraphs::warm_ups;
  const auto [seconds, cpu_seconds, hook_fractions, device, peak] =
      time_steps(std::move(parts), warmup, setting, true);
  const auto costs = operators ? std::optional(measure_operators(setting)) : std::nullopt;
  std::vector<double> rates;
  for (const double time : seconds)
    rates.push_back(static_cast<double>(setting.batch_size * setting.steps) / time);
  const auto megabytes = [](int64_t bytes) { return bytes >> 20; };
  if (json) {
    ordered_json result{{"model", setting.model},
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
    if (costs) print(*costs, std::cout);
  }
  return 0;
}

/// The loop with a model and an optimizer that do nothing.
TrainerParts bare_parts(const StepSetting& setting) {
  TrainerParts parts;
  parts.options = recipe_of(setting).options;
  parts.device = resolve_device(setting.device, parts.context.place);
  parts.model = std::make_shared<StubModel>(setting.batch_size, 10);
  parts.optimizer = std::make_shared<StubOptimizer>();
  return parts;
}

/// Adds what every run from a recipe logs, into a folder of its own.
void add_default_loggers(TrainerParts& parts, const std::string& folder) {
  parts.options.run_dir = folder;
  parts.loggers.push_back(std::make_shared<TensorBoard>(TensorBoard::Params{}));
  parts.callbacks.push_back({"speed_monitor",
                             std::make_shared<SpeedMonitor>(SpeedMonitor::Params{}),
                             subscriptions<SpeedMonitor>()});
  parts.callbacks.push_back({"image_monitor",
                             std::make_shared<ImageMonitor>(ImageMonitor::Params{}),
                             subscriptions<ImageMonitor>()});
}

/// A folder for as long as it lives.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_((std::filesystem::temp_directory_path() / "composer-bench-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw RunError(path_ + ": no folder can be made there to measure with");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What a step of the bare loop takes.
struct BareStep {
  double seconds, cpu_seconds;
};

/// Of a loop with `count` algorithms that do nothing, and what every run logs.
BareStep bare_loop(const StepSetting& real, int64_t count, bool logs = false) {
  StepSetting setting = real;
  setting.steps = 100, setting.repeats = 9;
  auto parts = bare_parts(setting);
  for (int64_t i = 0; i < count; ++i)
    parts.algorithms.push_back({"nothing" + std::to_string(i), std::make_shared<NothingAlgorithm>(),
                                subscriptions<NothingAlgorithm>()});
  const ScratchFolder folder;
  if (logs) add_default_loggers(parts, folder.path());
  const auto times = time_steps(std::move(parts), 20, setting, false);
  const auto steps = static_cast<double>(setting.steps);
  return {median(times.seconds) / steps, median(times.cpu_seconds) / steps};
}

int overhead_command(const Words& words) {
  CLI::App app(
      "What the loop adds to a ResNet-20 step on CIFAR-10 at batch 128: the loop alone, with "
      "forward, backward and\n"
      "update stubbed out, over the whole step; with no algorithm, with ten that do nothing, and "
      "with what every\n"
      "run logs (metrics.jsonl, TensorBoard, speed_monitor, image_monitor), the processor time of "
      "whose threads counts.",
      "bench overhead");
  StepSetting setting{
      .model = "resnet20", .batch_size = 128, .resolution = 32, .repeats = 5, .algorithms = {}};
  bool json = false;
  app.add_option("--precision", setting.precision, "of the whole step")
      ->capture_default_str()
      ->check(choices(precisions));
  app.add_option("--device", setting.device, "where to compute")
      ->capture_default_str()
      ->check(choices(devices));
  app.add_flag("--json", json, "one JSON object on standard output");
  if (!parse(app, words)) return 0;

  const double step = median(time_steps(step_parts(setting), 3, setting, false).seconds) /
                      static_cast<double>(setting.steps);
  const auto bare = bare_loop(setting, 0), logging = bare_loop(setting, 0, /*logs=*/true);
  const double none = bare.seconds, ten = bare_loop(setting, 10).seconds;
  const double logs = none + std::max(0.0, logging.cpu_seconds - bare.cpu_seconds);
  if (json) {
    std::cout << ordered_json{{"model", setting.model},
                              {"batch_size", setting.batch_size},
                              {"precision", setting.precision},
                              {"step_seconds", step},
                              {"loop_seconds_0_algorithms", none},
                              {"loop_seconds_10_algorithms", ten},
                              {"loop_seconds_logging", logs},
                              {"overhead_fraction_0_algorithms", none / step},
                              {"overhead_fraction_10_algorithms", ten / step},
                              {"overhead_fraction_logging", logs / step}}
              << '\n';
  } else {
    std::cout << "a step takes " << step * 1e3 << " ms; the loop alone " << none * 1e6 << " us ("
              << 100 * none / step << " %), with ten algorithms " << ten * 1e6 << " us ("
              << 100 * ten / step << " %), with what every run logs " << logs * 1e6 << " us ("
              << 100 * logs / step << " %)\n";
  }
  return 0;
}

const CommandTable benchmarks{{"step", step_command},
                              {"overhead", overhead_command},
                              {"headspace", bench_headspace_command},
                              {"loader", bench_loader_command},
                              {"image", bench_image_command},
                              {"infer", bench_infer_command},
                              {"augment", bench_augment_command}};

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int bench_command(const Words& words) {
  const OtherPrograms others;
  const int status = dispatch("bench", benchmarks, words);
  if (const auto share = others.share(); share && *share >= busy_share)
    log::warn("the machine was busy meanwhile: " + others_text(*share) +
              "; measured alone, the figures would be others");
  return status;
}

}  // namespace composer
