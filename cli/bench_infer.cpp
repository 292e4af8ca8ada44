// The subcommand bench infer: a trained network on images in memory, call by call.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/number_text.h"
#include "base/remote/fetched.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "inference/network_folder.h"
#include "inference/runtime.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// The smallest value that at least this share of the values does not exceed.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

/// Seconds of each call; calls for `seconds` and at least ten times.
std::vector<double> time_calls(const Runtime& runtime, const at::Tensor& images, double seconds) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) runtime.logits(images);
  std::vector<double> times;
  const double begin = steady_seconds();
  for (double now = begin; now - begin < seconds || times.size() < 10;) {
    const double before = now;
    runtime.logits(images);
    now = steady_seconds();
    times.push_back(now - before);
  }
  return times;
}

}  // namespace

int bench_infer_command(const Words& words) {
  CLI::App app(
      "What classifying images with a trained network takes, the images being in memory: the "
      "latency of\nsingle calls and images a second.",
      "bench infer");
  std::string model, precision = "fp32";
  int64_t batch_size = 1, threads = 0;
  double seconds = 5;
  app.option_defaults()->always_capture_default();
  app.add_option("--model", model, "a folder that `composer export` or `composer quantize` wrote")
      ->required();
  app.add_option("--batch_size", batch_size, "images a call")->check(positive());
  app.add_option("--precision", precision, "type of numbers that are no codes: fp32 or bf16")
      ->check(CLI::IsMember(run_precision_words));
  app.add_option("--threads", threads, "threads that compute; default: one for each core")
      ->default_str("")
      ->check(positive());
  app.add_option("--seconds", seconds, "to go on for; ten calls at least")->check(positive());
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  const auto network = read_network(fetched(model));
  const Runtime runtime(network, run_precision_words.at(precision));
  const auto& [channels, resize, size, normalization] = network.preparation;
  const auto images = at::randint(256, {batch_size, size.height, size.width, channels}, at::kByte);
  const auto times = time_calls(runtime, images, seconds);
  const double total = std::accumulate(times.begin(), times.end(), 0.0);
  const double rate = static_cast<double>(batch_size) * static_cast<double>(times.size()) / total;
  const ordered_json result{
      {"model", model},
      {"batch_size", batch_size},
      {"resolution", {size.height, size.width}},
      {"precision", network.quantization.empty() ? precision : "int8"},
      {"threads", at::get_num_threads()},
      {"calls", times.size()},
      {"images_per_s", rate},
      {"p50_ms", 1e3 * quantile(times, 0.5)},
      {"p99_ms", 1e3 * quantile(times, 0.99)},
  };
  if (json)
    std::cout << result << '\n';
  else
    std::cout << model << ", batch " << batch_size << ", " << size.height << " x " << size.width
              << ", " << result["precision"].get<std::string>() << ", " << at::get_num_threads()
              << " threads: " << number_text(rate, 1) << " images/s, p50 "
              << number_text(result["p50_ms"].get<double>(), 2) << " ms, p99 "
              << number_text(result["p99_ms"].get<double>(), 2) << " ms\n";
  return 0;
}

}  // namespace composer
