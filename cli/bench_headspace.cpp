// The subcommand bench headspace: what limits a recipe's training on this machine.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "analysis/headspace.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine_limits.h"
#include "base/process/interrupt.h"
#include "base/run_context.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "composer/loop/state.h"
#include "composer/run/assemble.h"
#include "composer/run/automatic_values.h"
#include "nn/device/device.h"
#include "nn/network/precision.h"
#include "nn/profiling/timer.h"

namespace composer {
namespace {

/// The input of the training: the recipe's batches, batches of decoded samples, or one batch
/// repeated, in the loader's memory or on the device.
enum class Feed { real, decoded, kept, on_device };

class SwitchedLoader : public Loader {
 public:
  SwitchedLoader(std::shared_ptr<Loader> real, std::shared_ptr<Loader> decoded)
      : real_(std::move(real)), decoded_(std::move(decoded)) {}

  int64_t batches_per_epoch() const override { return real_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return real_->samples_per_epoch(); }
  ImageSize image_size() const override { return real_->image_size(); }
  const Normalization& normalization() const override { return real_->normalization(); }
  void add_transform(SampleTransform transform) override {
    real_->add_transform(transform);
    decoded_->add_transform(transform);
    transforms_.push_back(std::move(transform));
  }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    real_->start(epoch, batch, plan);
    decoded_->start(epoch, batch, plan);
    plan_ = std::move(plan);
  }
  std::optional<RawBatch> next() override {
    if (feed_ == Feed::kept || feed_ == Feed::on_device) return kept_;
    auto& loader = feed_ == Feed::real ? *real_ : *decoded_;
    auto batch = loader.next();
    if (!batch) batch = loader.next();  // the next epoch begins
    if (batch && (!kept_ || batch->samples() >= kept_->samples()))
      kept_ = batch;  // the last batch of an epoch may be short
    return batch;
  }

  void switch_to(Feed feed, at::Device device) {
    feed_ = feed;
    if (feed == Feed::on_device) kept_ = kept_->to(device);
  }

  /// Starts another loader with the transforms and the size plan of this one.
  void start_alike(Loader& other) const {
    for (const auto& transform : transforms_) other.add_transform(transform);
    other.start(0, 0, plan_);
  }

 private:
  std::shared_ptr<Loader> real_, decoded_;
  Feed feed_ = Feed::real;
  std::optional<RawBatch> kept_;
  std::vector<SampleTransform> transforms_;
  SizePlan plan_;
};

/// Bytes that this process has read from storage; empty if the system does not report them.
std::optional<double> bytes_from_storage() {
  std::ifstream file("/proc/self/io");
  std::string key;
  for (double value = 0; file >> key >> value;)
    if (key == "read_bytes:") return value;
  return {};
}

/// Measurements over a part of the run, or of a loader.
struct Stretch {
  double seconds = 0, images = 0, waited = 0;
  std::optional<double> bytes;  ///< bytes read from storage

  double rate() const { return images / seconds; }
};

/// Trains on each feed in turn, measures it for some seconds after its first batches, then ends the
/// run.
class FeedMonitor : public Callback {
 public:
  FeedMonitor(SwitchedLoader& loader, std::vector<Feed> feeds, double seconds,
              int64_t first_batches)
      : loader_(loader), feeds_(std::move(feeds)), seconds_(seconds), first_(first_batches) {}

  void batch_end(const State& state, Logger&, RunControl& control) override {
    if (!timer_) timer_.emplace(Timer::Listen::here);
    ++done_;
    if (done_ < first_) return;
    if (done_ == first_) return begin(state);
    stretch_.images += static_cast<double>(state.batch.samples());
    if (steady_seconds() - begin_ < seconds_ || done_ < first_ + least_batches) return;
    end(state);
    if (++place_ == feeds_.size()) {
      timer_.reset();
      return control.request_stop("all feeds are measured");
    }
    loader_.switch_to(feeds_[place_], state.device);
    done_ = 0;
  }

  /// One for each feed, unless the run was interrupted.
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  static constexpr int64_t least_batches = 3;

  void begin(const State& state) {
    synchronize(state.device);
    stretch_ = {};
    waited_ = timer_->here("dataloader").seconds;
    bytes_ = bytes_from_storage();
    begin_ = steady_seconds();
  }
  void end(const State& state) {
    synchronize(state.device);
    stretch_.seconds = steady_seconds() - begin_;
    stretch_.waited = timer_->here("dataloader").seconds - waited_;
    if (const auto bytes = bytes_from_storage(); bytes && bytes_) stretch_.bytes = *bytes - *bytes_;
    stretches_.push_back(stretch_);
  }

  SwitchedLoader& loader_;
  std::vector<Feed> feeds_;
  double seconds_;
  int64_t first_;
  std::optional<Timer> timer_;
  size_t place_ = 0;
  int64_t done_ = 0;  ///< batches of the current feed so far
  double begin_ = 0, waited_ = 0;
  std::optional<double> bytes_;
  Stretch stretch_;
  std::vector<Stretch> stretches_;
};

/// Measures a loader whose batches nobody uses, after its first batches.
Stretch drained(Loader& loader, double seconds, int64_t first_batches) {
  constexpr int64_t least_batches = 3;
  const InterruptGuard guard;
  Stretch stretch;
  std::optional<double> bytes;
  double begin = 0;
  for (int64_t done = 0;; ++done) {
    if (const int signal = received_signal(); signal != 0) throw Interrupted{signal};
    if (done == first_batches) begin = steady_seconds(), bytes = bytes_from_storage();
    if (done >= first_batches + least_batches && steady_seconds() - begin >= seconds) break;
    auto batch = loader.next();
    if (!batch) batch = loader.next();
    if (done >= first_batches) stretch.images += static_cast<double>(batch->samples());
  }
  stretch.seconds = steady_seconds() - begin;
  if (const auto now = bytes_from_storage(); now && bytes) stretch.bytes = *now - *bytes;
  return stretch;
}

std::shared_ptr<Loader> open_again(const Recipe& recipe, const TrainerParts& parts,
                                   const std::function<void(LoaderOptions&)>& change) {
  auto options = loader_options(recipe.options, parts.context, /*training=*/true);
  options.class_names = parts.class_names;
  options.pin_memory = recipe.options.dataloader.pin_memory && !parts.device->is_cpu();
  change(options);
  return build_dataset(recipe, true)->open(options);
}

/// Number of decoded samples; too many for a processor's cache.
constexpr int64_t decoded_samples = 512;

/// Fewer bytes read per sample than a tenth of a page are not reads of samples.
constexpr double least_bytes = 400;

constexpr int64_t endless = int64_t{1} << 30;

struct Measured {
  Headspace rates;
  HeadspaceSetting setting;
};

/// Measures the loader alone, from the page cache and from storage.
void measure_alone(const Recipe& recipe, const TrainerParts& parts, const SwitchedLoader& told,
                   double seconds, Headspace& rates) {
  const int64_t first = recipe.options.dataloader.prefetch_factor + 1;
  const auto measured = [&](bool cold, double length) {
    const auto loader =
        open_again(recipe, parts, [&](LoaderOptions& options) { options.cold = cold; });
    told.start_alike(*loader);
    return drained(*loader, length, first);
  };
  measured(/*cold=*/false, seconds);  // fills the page cache
  rates.step_free = measured(false, seconds / 2).rate();
  const auto stretch = measured(/*cold=*/true, seconds);
  if (stretch.bytes.value_or(0) < least_bytes * stretch.images) return;
  rates.cold = stretch.rate();
  rates.bytes_of_a_sample = *stretch.bytes / stretch.images;
}

bool has_amp(const Recipe& recipe, const State& state) {
  if (recipe.options.precision == "amp" || state.precision == Precision::amp_bf16 ||
      state.precision == Precision::amp_fp16)
    return true;
  return state.device.is_cpu() && !choose_bf16(bf16_instructions(), bf16_speedup).faster;
}

HeadspaceSetting setting_of(const Recipe& recipe, const State& state) {
  const auto uses = [&](const std::string& name) {
    return std::ranges::any_of(recipe.algorithms,
                               [&](const auto& one) { return one->name() == name; });
  };
  return {.on_cpu = state.device.is_cpu(),
          .has_amp = has_amp(recipe, state),
          .channels_last = uses("channels_last"),
          .progressive_resizing = uses("progressive_resizing"),
          .pinned = recipe.options.dataloader.pin_memory,
          .beton = dump(recipe).find("use_ffcv: true") != std::string::npos,
          .num_workers = recipe.options.dataloader.num_workers,
          .cores = usable_processors(read_machine_limits())};
}

Headspace rates_of(const std::vector<Stretch>& stretches, const DecodedSamples& decoded) {
  Headspace rates;
  rates.as_it_is = stretches[0].rate();
  rates.wait_fraction = stretches[0].waited / stretches[0].seconds;
  rates.decoded_samples = decoded.kept;
  if (decoded.kept > 0) rates.decoding_free = stretches[1].rate();
  rates.loader_free = stretches[2].rate();
  if (stretches.size() > 3) rates.copy_free = stretches[3].rate();
  return rates;
}

Measured measure(Recipe recipe, const RunContext& context, double seconds) {
  auto& options = recipe.options;
  leave_no_run(options);
  options.on_nan = "ignore";
  options.max_duration = {static_cast<double>(endless), TimeUnit::batch};
  recipe.val_dataset = nullptr;
  recipe.evaluators.clear();
  recipe.callbacks.clear(), recipe.loggers.clear();
  auto parts = assemble_training(recipe, context);
  const auto decoded = std::make_shared<DecodedSamples>(DecodedSamples{decoded_samples});
  const auto loader = std::make_shared<SwitchedLoader>(
      parts.train_loader,
      open_again(recipe, parts, [&](LoaderOptions& changed) { changed.decoded = decoded; }));
  std::vector<Feed> feeds{Feed::real, Feed::decoded, Feed::kept};
  if (!parts.device->is_cpu()) feeds.push_back(Feed::on_device);
  const auto monitor = std::make_shared<FeedMonitor>(*loader, feeds, seconds,
                                                     options.dataloader.prefetch_factor + 2);
  const TrainerParts kept = parts;
  parts.train_loader = loader;
  parts.callbacks = {{"headspace", monitor, subscriptions<FeedMonitor>()}};
  parts.console = false;
  Trainer trainer(std::move(parts));
  const auto summary = trainer.fit();
  if (summary.signal != 0) throw Interrupted{summary.signal};

  // The training is measured first, as the later measurements find the samples in the page cache.
  const auto& real = monitor->stretches().front();
  auto rates = rates_of(monitor->stretches(), *decoded);
  measure_alone(recipe, kept, *loader, seconds, rates);
  if (rates.bytes_of_a_sample && real.bytes)
    rates.storage_share = std::min(1.0, *real.bytes / real.images / *rates.bytes_of_a_sample);
  return {rates, setting_of(recipe, trainer.state())};
}

}  // namespace

int bench_headspace_command(const Words& words) {
  CLI::App app(
      "What limits a recipe's training on this machine, as it is at the run's beginning: its rate, "
      "and the rate with\nloading, decoding, the copy to the device or the step free. Leaves "
      "nothing on the disk but crop indices.",
      "bench headspace");
  std::string file;
  double seconds = 4;
  add_recipe(app, file)->required();
  app.add_option("--seconds", seconds, "that each of some six rates is measured, after a warm-up")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 3600.0));
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;
  const auto context = read_run_context();
  check_alone("bench headspace", context.environment);
  const auto recipe = resolved_with_log(recipe_of(app, file), context);
  log::quiet();
  const auto measured = measure(recipe, context, seconds);
  const auto verdict = judge(measured.rates, measured.setting);
  if (json)
    std::cout << json_of(measured.rates, verdict) << '\n';
  else
    std::cout << text_of(measured.rates, verdict);
  return 0;
}

}  // namespace composer
