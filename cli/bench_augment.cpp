// The subcommand bench augment: images a second through an algorithm that changes images.
#include <ATen/Parallel.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/rank_environment.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "composer/loop/state.h"
#include "composer/recipe/recipe.h"
#include "nn/device/device.h"
#include "nn/network/normalize.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

struct AugmentSetting {
  std::string algorithm, where = "device", pixels, device = "cpu";
  int64_t batch_size = 64, resolution = 224, num_workers = 2, batches = 2, repeats = 5;
};

std::shared_ptr<Algorithm> build_algorithm(const AugmentSetting& setting, const Words& overrides) {
  const std::string yaml =
      "{model: {resnet: {}}, train_dataset: {synthetic: {}}, optimizer: {sgd: {lr: 1}}, "
      "train_batch_size: 1, max_duration: 1ep, run_dir: none}";
  Words words = {"--algorithms", setting.algorithm, "--algorithms." + setting.algorithm + ".where",
                 setting.where};
  words.insert(words.end(), overrides.begin(), overrides.end());
  const auto recipe = resolve({"bench", yaml}, words);
  return recipe.algorithms.at(0)->build();
}

/// uint8 [batches * batch_size, resolution, resolution, 3].
at::Tensor read_images(const AugmentSetting& setting) {
  const int64_t side = setting.resolution;
  auto images = at::empty({setting.batches * setting.batch_size, side, side, 3}, at::kByte);
  if (setting.pixels.empty()) return images.random_(256);
  std::ifstream file(setting.pixels, std::ios::binary);
  file.read(reinterpret_cast<char*>(images.data_ptr<uint8_t>()), images.numel());
  if (file.gcount() != images.numel())
    throw UserError("--pixels: " + setting.pixels + " must have " + std::to_string(images.numel()) +
                    " bytes: batches x batch_size images of resolution x resolution x 3");
  return images;
}

/// Seconds for all images on num_workers threads, each image copied first as a loader would.
double time_loader(const SampleTransform& transform, const at::Tensor& images, uint64_t epoch,
                   const AugmentSetting& setting, std::atomic<bool>& effect) {
  const int64_t bytes = images[0].numel(), side = setting.resolution;
  const uint8_t* const from = images.data_ptr<uint8_t>();
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    std::vector<uint8_t> pixels(static_cast<size_t>(bytes));
    for (int64_t i = next++; i < images.size(0); i = next++) {
      std::memcpy(pixels.data(), from + i * bytes, pixels.size());
      transform({pixels.data(), side, side, 3}, {.epoch = epoch, .sample = static_cast<size_t>(i)});
      if (!effect) effect = std::memcmp(pixels.data(), from + i * bytes, pixels.size()) != 0;
    }
  };
  const double begin = steady_seconds();
  std::vector<std::jthread> threads;
  for (int64_t i = 0; i < setting.num_workers; ++i) threads.emplace_back(work);
  threads.clear();
  return steady_seconds() - begin;
}

/// Seconds that the algorithm takes for the bytes and for the normalised images of one batch,
/// without the normalisation.
double time_batch(Algorithm& algorithm, State& state, const at::Tensor& images,
                  std::atomic<bool>& effect) {
  const auto timed = [&](const auto& change) {
    synchronize(state.device);
    const double begin = steady_seconds();
    change();
    synchronize(state.device);
    return steady_seconds() - begin;
  };
  state.raw_batch.images = images.clone();
  double seconds = timed([&] { algorithm.augment(state); });
  if (!effect) effect = !at::equal(state.raw_batch.images, images);
  state.batch.input =
      normalize(state.raw_batch.images, state.normalization, at::MemoryFormat::ChannelsLast);
  const auto before = state.batch.input.clone();
  seconds += timed([&] { algorithm.after_dataloader(state); });
  if (!effect) effect = !at::equal(state.batch.input, before);
  return seconds;
}

/// Images per second of each repeat after the first.
std::vector<double> measure(const AugmentSetting& setting, const Words& overrides) {
  State state;
  state.device = resolve_device(setting.device, read_rank_environment());
  const auto algorithm = build_algorithm(setting, overrides);
  const auto images = read_images(setting);
  state.image_size = {setting.resolution, setting.resolution};
  state.memory_format = at::MemoryFormat::ChannelsLast;
  state.normalization = {{127.5, 127.5, 127.5}, {73.6, 73.6, 73.6}};
  const auto batches = images.to(state.device).split(setting.batch_size);
  const auto transform = algorithm->sample_transform(state);
  if (setting.where == "loader" && !transform)
    throw UserError("--where: " + setting.algorithm + " has nothing to do in the loader");
  at::set_num_threads(static_cast<int>(setting.num_workers));
  std::atomic<bool> effect = false;
  std::vector<double> rates;
  for (int64_t repeat = 0; repeat <= setting.repeats; ++repeat) {
    double seconds = 0;
    if (setting.where == "loader") {
      seconds = time_loader(transform, images, static_cast<uint64_t>(repeat), setting, effect);
    } else {
      for (const auto& batch : batches) {
        seconds += time_batch(*algorithm, state, batch, effect);
        ++state.time.batch;
      }
    }
    if (repeat > 0) rates.push_back(static_cast<double>(images.size(0)) / seconds);
  }
  if (!effect) throw UserError("--algorithm: " + setting.algorithm + " changed no image");
  return rates;
}

}  // namespace

int bench_augment_command(const Words& words) {
  CLI::App app(
      "Images a second through an algorithm that changes images and has the parameter `where`, "
      "alone: no\nfiles, no training. Further words set its parameters: --severity 5.",
      "bench augment");
  AugmentSetting setting;
  app.allow_extras();
  app.option_defaults()->always_capture_default();
  app.add_option("--algorithm", setting.algorithm, "its name")->required();
  app.add_option("--where", setting.where,
                 "device: whole batches, by num_workers threads of torch; loader: image by image, "
                 "on num_workers threads")
      ->check(word_of({"device", "loader"}));
  app.add_option("--pixels", setting.pixels,
                 "file with the images' bytes, red, green, blue, from the top left; none = noise");
  app.add_option("--device", setting.device, "device of the batches: auto, cpu or gpu");
  app.add_option("--batch_size", setting.batch_size)->check(CLI::Range(1, 1 << 20));
  app.add_option("--resolution", setting.resolution, "height and width")
      ->check(CLI::Range(1, 4096));
  app.add_option("--num_workers", setting.num_workers, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--batches", setting.batches, "a repeat")->check(CLI::Range(1, 1 << 20));
  app.add_option("--repeats", setting.repeats, "number of repeats; their median is reported")
      ->check(positive());
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  const auto rates = measure(setting, app.remaining());
  if (json) {
    std::cout
        << ordered_json{{"algorithm", setting.algorithm},   {"where", setting.where},
                        {"device", setting.device},         {"batch_size", setting.batch_size},
                        {"resolution", setting.resolution}, {"num_workers", setting.num_workers},
                        {"images_per_s", median(rates)},    {"all", rates}}
        << '\n';
  } else {
    std::cout << setting.algorithm << ", " << setting.where << ", " << setting.resolution << " px, "
              << setting.num_workers << " threads: " << median(rates) << " images/s\n";
  }
  return 0;
}

}  // namespace composer
