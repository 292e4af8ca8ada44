// The subcommand bench loader: images per second that a loader gives.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/remote/remote_path.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "cli/sources.h"
#include "cli/wrapped_source.h"
#include "data/batches/image_loader.h"
#include "data/datasets/dataset_params.h"
#include "nn/device/device.h"
#include "nn/network/batch.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct LoaderSetting {
  std::string source, pipeline = "train", output = "uint8", order = "random",
                      resize_filter = "triangle", crop_index = "cache", on_bad_sample = "error";
  int64_t batch_size = 256, resolution = 224, num_workers = 2, prefetch_factor = 2, epochs = 3,
          repeat = 1;
  double coefficient_cache = 0;
  bool ffcv_exact = false;
  uint64_t seed = 0;
};

/// Another source's samples, several times over.
class TiledSource final : public WrappedSource {
 public:
  TiledSource(std::shared_ptr<Source> source, int64_t times)
      : WrappedSource(std::move(source)), times_(times) {}

  int64_t size() const override { return source_->size() * times_; }
  uint64_t paged_bytes() const override { return source_->paged_bytes(); }
  int64_t page(int64_t index) const override { return source_->page(inner(index)); }
  void forget(int64_t index, bool whole_page) const override {
    source_->forget(inner(index), whole_page);
  }
  fs::path indexed_path() const override { return source_->indexed_path(); }
  std::optional<FileStamp> remote_stamp() const override { return source_->remote_stamp(); }

 private:
  int64_t inner(int64_t index) const override { return index % source_->size(); }

  int64_t times_;
};

ImageLoaderOptions pipeline_of(const LoaderSetting& setting, const Source& source,
                               const LoaderOptions& common) {
  const bool train = setting.pipeline == "train";
  const bool small = has_small_images(source);
  Transform transform{
      .kind = train   ? small ? Transform::Kind::pad_and_crop : Transform::Kind::random_resized_crop
              : small ? Transform::Kind::whole
                      : Transform::Kind::center_crop,
      .size = {setting.resolution, setting.resolution}};
  if (small) transform.size = {32, 32};
  if (!train && !small) transform.resize_size = setting.resolution * 256 / 224;
  set_pixels(transform, common, train);
  ImageLoaderOptions options{.transform = transform,
                             .augmentations = {},
                             .normalization = imagenet_normalization(),
                             .rows = "",
                             .drop_last = true,
                             .training = train};
  if (train && setting.order == "random") options.order = OrderKind::random;
  if (train && setting.order == "quasi_random") options.order = OrderKind::quasi_random;
  if (setting.output == "float32") options.output = ElementType::float32;
  if (setting.output == "bf16") options.output = ElementType::bfloat16;
  return options;
}

struct Rates {
  double first_batch = 0;  // seconds since the file was opened
  std::vector<double> per_epoch;
};

Rates measure(const LoaderSetting& setting) {
  const double begin = steady_seconds();
  const auto on_bad_sample = on_bad_sample_words.at(setting.on_bad_sample);
  auto source = open_source(setting.source, setting.pipeline == "train", on_bad_sample);
  if (setting.repeat > 1) source = std::make_shared<TiledSource>(source, setting.repeat);
  const LoaderOptions common{.batch_size = setting.batch_size,
                             .seed = setting.seed,
                             .num_workers = setting.num_workers,
                             .prefetch_factor = setting.prefetch_factor,
                             .on_bad_sample = on_bad_sample,
                             .resize_filter = setting.resize_filter,
                             .ffcv_exact = setting.ffcv_exact,
                             .crop_index = setting.crop_index,
                             .coefficient_cache = setting.coefficient_cache};
  const auto loader = make_image_loader(source, pipeline_of(setting, *source, common), common);
  Rates rates;
  loader->start(0, 0);
  for (int64_t epoch = 0; epoch < setting.epochs; ++epoch) {
    const double start = epoch == 0 ? begin : steady_seconds();
    int64_t images = 0;
    while (const auto batch = loader->next()) {
      if (images == 0 && epoch == 0) rates.first_batch = steady_seconds() - begin;
      images += batch->samples();
    }
    rates.per_epoch.push_back(static_cast<double>(images) / (steady_seconds() - start));
  }
  return rates;
}

void add_options(CLI::App& app, LoaderSetting& s) {
  app.add_option(
         "--source", s.source,
         "a .beton file or class folders of images, local or remote, WebDataset's or MosaicML's "
         "shards,\na list of images, or a folder with CIFAR-10's binary files")
      ->required();
  app.add_option("--batch_size", s.batch_size)->check(CLI::Range(1, 1 << 20));
  app.add_option("--resolution", s.resolution,
                 "height and width of the result; of images of 32 x "
                 "32 always 32")
      ->check(CLI::Range(1, 4096));
  app.add_option("--num_workers", s.num_workers, "threads; 0 = the calling one")
      ->check(CLI::Range(0, 1024));
  app.add_option("--prefetch_factor", s.prefetch_factor, "batches kept ready")
      ->check(CLI::Range(1, 1024));
  app.add_option("--epochs", s.epochs, "the first one included")->check(CLI::Range(1, 1 << 20));
  app.add_option("--repeat", s.repeat, "how often an epoch uses each sample")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--pipeline", s.pipeline,
                 "train: random resized crop and flip (32 x 32: pad by 4, crop, flip); eval: the "
                 "middle, 224/256")
      ->check(word_of({"train", "eval"}));
  app.add_option("--output", s.output, "uint8, or normalised float32 or bf16")
      ->check(word_of({"uint8", "float32", "bf16"}));
  app.add_option("--order", s.order, "order of the train pipeline")
      ->check(word_of({"sequential", "random", "quasi_random"}));
  app.add_option("--resize_filter", s.resize_filter)
      ->check(word_of({"triangle", "bicubic", "area"}));
  app.add_flag("--ffcv_exact", s.ffcv_exact, "the very pixels that FFCV gives");
  app.add_option("--crop_index", s.crop_index,
                 "where the JPEG index is kept: by the data, in the user's cache, or nowhere")
      ->check(word_of({"beside", "cache", "off"}))
      ->capture_default_str();
  app.add_option("--coefficient_cache", s.coefficient_cache,
                 "GB for coefficients of JPEGs, kept where the index is; 0 = none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--on_bad_sample", s.on_bad_sample,
                 "error: one that cannot be read ends the measurement; skip: it is left out; "
                 "replace: by the next")
      ->check(CLI::IsMember(on_bad_sample_words));
  app.add_option("--seed", s.seed);
}

}  // namespace

int bench_loader_command(const Words& words) {
  CLI::App app(
      "Images a second out of a set: the median over the epochs after the first, in which the JPEG "
      "index\nis made. Incomplete batches are dropped.",
      "bench loader");
  LoaderSetting setting;
  add_options(app, setting);
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  const Rates rates = measure(setting);
  std::vector<double> later(rates.per_epoch.begin() + (setting.epochs > 1 ? 1 : 0),
                            rates.per_epoch.end());
  const double rate = median(later);
  const int64_t memory = peak_memory_bytes(at::kCPU) >> 20;
  if (json) {
    const auto rounded = [](double value) { return std::round(value * 10) / 10; };
    ordered_json epochs = ordered_json::array();
    for (const double one : rates.per_epoch) epochs.push_back(rounded(one));
    std::cout << ordered_json{{"source", fs::path(shown_path(setting.source)).filename().string()},
                              {"pipeline", setting.pipeline},
                              {"output", setting.output},
                              {"resolution", setting.resolution},
                              {"batch_size", setting.batch_size},
                              {"num_workers", setting.num_workers},
                              {"images_per_s", rounded(rate)},
                              {"per_epoch", epochs},
                              {"first_batch_s", rates.first_batch},
                              {"max_rss_mb", memory}}
              << '\n';
  } else {
    std::cout << rate << " images/s (first epoch " << rates.per_epoch.front()
              << "), first batch after " << rates.first_batch << " s, at most " << memory
              << " MB of memory\n";
  }
  return 0;
}

}  // namespace composer
