// The subcommand bench overhead: what the loop adds to a training step.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "cli/bench_step.h"
#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/monitors.h"
#include "composer/logging/tensorboard.h"
#include "nn/device/device.h"

namespace composer {
namespace {

class NothingAlgorithm : public Algorithm {
 public:
#define X(name, kind) \
  void name(State&) override {}
  COMPOSER_EVENTS(X)
#undef X
};

/// A model whose forward and backward pass cost next to nothing.
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

/// The loop with a model and an optimizer that do nothing.
TrainerParts bare_parts(const StepSetting& setting) {
  TrainerParts parts;
  parts.options = recipe_of(setting).options;
  parts.device = resolve_device(setting.device, parts.context.environment);
  parts.model = std::make_shared<StubModel>(setting.batch_size, 10);
  parts.optimizer = std::make_shared<StubOptimizer>();
  return parts;
}

/// Adds the loggers and monitors of every run from a recipe, writing to `folder`.
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

/// A temporary folder, removed by the destructor.
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

/// Time of a step of the bare loop.
struct BareStep {
  double seconds, cpu_seconds;
};

/// Times the loop with `count` algorithms that do nothing. logs: with the default loggers.
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

}  // namespace

int bench_overhead_command(const Words& words) {
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
  app.option_defaults()->always_capture_default();
  app.add_option("--precision", setting.precision, "precision of the whole step")
      ->check(word_of(step_precisions));
  app.add_option("--device", setting.device, "where to compute")->check(word_of(step_devices));
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  const double step = median(time_steps(timed_parts(setting), 3, setting, false).seconds) /
                      static_cast<double>(setting.steps);
  const auto bare = bare_loop(setting, 0), logging = bare_loop(setting, 0, /*logs=*/true);
  const double none = bare.seconds, ten = bare_loop(setting, 10).seconds;
  const double logs = none + std::max(0.0, logging.cpu_seconds - bare.cpu_seconds);
  if (json) {
    std::cout << nlohmann::ordered_json{{"model", setting.model},
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

}  // namespace composer
