// The subcommand bench step: what a training step costs.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/bench.h"
#include "cli/bench_operators.h"
#include "cli/timed_steps.h"
#include "nn/device/device.h"

namespace composer {
namespace {

OperatorCosts measure_operators(const StepSetting& setting) {
  auto parts = timed_parts(setting);
  parts.options.log_interval = {1 << 20, TimeUnit::batch};
  const auto monitor = std::make_shared<OperatorMonitor>(3, setting.steps);
  run_steps(std::move(parts), {"bench", monitor, subscriptions<OperatorMonitor>()},
            monitor->batches(), setting);
  return monitor->costs();
}

}  // namespace

int bench_step_command(const Words& words) {
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
      ->check(choices(step_precisions));
  app.add_option("--device", setting.device, "where to compute")
      ->capture_default_str()
      ->check(choices(step_devices));
  app.add_option("--cuda_graph", setting.cuda_graph, "whether a GPU replays the step")
      ->capture_default_str()
      ->check(choices(step_cuda_graphs));
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
    if (costs) print(*costs, std::cout);
  }
  return 0;
}

}  // namespace composer
