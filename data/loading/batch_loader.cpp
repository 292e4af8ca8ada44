#include "data/loading/batch_loader.h"

#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/machine_limits.h"
#include "base/remote/leaving.h"
#include "base/several_threads.h"
#include "base/text.h"
#include "base/work_range.h"
#include "data/index/coefficient_store.h"
#include "data/index/index_location.h"
#include "data/loading/slot_filler.h"
#include "data/samples/memory_source.h"

namespace composer {
namespace {

/// The rows (of `rows`, or where that is empty of all `samples`) that an evaluation of
/// subset_num_batches batches takes, spread evenly: data sets are often sorted by class.
std::vector<int64_t> spread_rows(std::vector<int64_t> rows, int64_t samples,
                                 const LoaderOptions& common) {
  const int64_t all = rows.empty() ? samples : std::ssize(rows);
  const int64_t batches = (all + common.batch_size - 1) / common.batch_size;
  if (!common.subset_num_batches || *common.subset_num_batches >= batches) return rows;
  const int64_t taken = *common.subset_num_batches * common.batch_size;
  std::vector<int64_t> spread;
  for (int64_t i = 0; i < taken; ++i) {
    const int64_t index = (2 * i + 1) * all / (2 * taken);
    spread.push_back(rows.empty() ? index : rows[static_cast<size_t>(index)]);
  }
  return spread;
}

OrderOptions order_options(const Source& source, const ImageLoaderOptions& options,
                           const LoaderOptions& common) {
  if (options.order == OrderKind::class_balanced && source.num_values() > 0)
    throw UserError("order: class_balanced needs classes; these samples have values");
  if (options.given) return {.kind = options.order, .subset = {}, .given = options.given};
  auto rows = chosen_rows(source, options.rows, options.training, common);
  if (!options.training) rows = spread_rows(std::move(rows), source.size(), common);
  return {.kind = options.order,
          .subset = std::move(rows),
          .seed = common.seed,
          .window_pages = options.window_pages};
}

/// The options with batch_size in samples, not images.
LoaderOptions in_samples(LoaderOptions common, int64_t views) {
  if (common.batch_size % views != 0)
    throw UserError("views: a batch of " + std::to_string(common.batch_size) +
                    " images is not a whole number of samples with " + std::to_string(views) +
                    " images each");
  common.batch_size /= views;
  return common;
}

std::unique_ptr<IndexStore> index_store_of(const Source& source, const LoaderOptions& common) {
  const auto path = source.indexed_path();
  return path.empty() ? nullptr : open_index_store(path, common, source.remote_stamp());
}

std::unique_ptr<CoefficientStore> coefficient_store_of(const Source& source,
                                                       const LoaderOptions& common) {
  const auto path = source.indexed_path();
  if (!path.empty()) return open_coefficient_store(path, common, source.remote_stamp());
  if (common.coefficient_cache > 0 && !common.decoded)
    log::warn("coefficient_cache: has no effect on a set without a crop index");
  return nullptr;
}

/// Throws UserError unless every rank has a sample in each training batch.
void check_shares(int64_t samples, int64_t batches, const LoaderOptions& common) {
  const auto shares = [&] {
    return std::to_string(common.world_size) +
           " shares, one for each rank or spatial_ranks of them";
  };
  if (common.batch_size < common.world_size)
    throw UserError("batches of " + std::to_string(common.batch_size) +
                    " samples are too small for " + shares() + ": give train_batch_size at least " +
                    std::to_string(common.world_size));
  const int64_t last = samples - (batches - 1) * common.batch_size;
  if (last < common.world_size)
    throw UserError("the last batch of an epoch has only " + quantity(last, "sample") +
                    ", too few for " + shares() +
                    ": set drop_last: true, or take another train_batch_size");
}

/// Batches of an epoch. Throws UserError when there are none.
int64_t batches_of(int64_t samples, const ImageLoaderOptions& options,
                   const LoaderOptions& common) {
  const int64_t size = common.batch_size;
  const bool drop_last = options.drop_last;
  if (samples == 0) throw UserError("the data set has no samples");
  if (drop_last && samples < size) {
    throw UserError("the data set has " + quantity(samples, "sample") +
                    ", fewer than one batch of " + std::to_string(size) +
                    "; make the batch smaller or set drop_last: false");
  }
  const int64_t batches = drop_last ? samples / size : (samples + size - 1) / size;
  const auto shared = [&](int64_t taken) {
    if (options.training) check_shares(std::min(samples, taken * size), taken, common);
    return taken;
  };
  if (!common.subset_num_batches) return shared(batches);
  if (*common.subset_num_batches > batches) {
    log::warn("subset_num_batches: " + std::to_string(*common.subset_num_batches) +
              " is more than the " + quantity(batches, "batch") +
              " of an epoch; all of them are used");
  }
  return shared(std::clamp<int64_t>(*common.subset_num_batches, 1, batches));
}

/// How many bad samples the log names: of an evaluation all.
size_t named_bad_samples(const ImageLoaderOptions& options) {
  return options.training ? 20 : std::numeric_limits<size_t>::max();
}

SlotQueue::Limits queue_limits(int64_t batches, const ImageLoaderOptions& options,
                               const LoaderOptions& common, int64_t channels) {
  // Handing out single small images would cost more than decoding them.
  constexpr int64_t kTaskBytes = 192 * 1024;
  const ImageSize image = options.transform.size;
  const int64_t images = kTaskBytes / (image.height * image.width * channels);
  return {.batches = batches,
          .slots = static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0)) + 1,
          .task_images = std::clamp<int64_t>(images, 1, 64),
          .ahead = options.training};
}

/// Bytes of a window of the quasi-random order; 0 for a source without pages.
uint64_t window_bytes(const Source& source, const Sampler& sampler, int64_t window_pages) {
  if (sampler.size() == 0 || source.paged_bytes() == 0) return 0;
  const auto page = source.extent(sampler.epoch(0)(0), true);
  return page ? page->bytes() * static_cast<uint64_t>(window_pages) : 0;
}

/// Warns, once a process, where memory lacks room for two windows: one is used while the next is
/// read.
void warn_of_little_memory(const Source& source, uint64_t window) {
  const uint64_t wanted = std::min(2 * window, source.paged_bytes());
  const MachineLimits limits = read_machine_limits();
  const auto room = static_cast<uint64_t>(std::max<int64_t>(room_for_memory(limits), 0));
  if (limits.available_bytes == 0 || wanted <= room) return;
  if (static std::atomic<bool> warned; warned.exchange(true)) return;
  log::warn("order: quasi_random has two windows of pages in memory, " +
            std::to_string(wanted / 1'000'000) + " MB, and the machine or its container leaves " +
            std::to_string(room / 1'000'000) +
            " MB: pages are read more than once; a .beton file with smaller ones takes less "
            "(composer data write --page_size)");
}

/// Warns where a window of the quasi-random order mixes few classes: the file was written class by
/// class.
void warn_of_few_classes(const Source& source, const Sampler& sampler, uint64_t window_of_file) {
  if (window_of_file == 0 || window_of_file >= source.paged_bytes()) return;
  const double share =
      static_cast<double>(window_of_file) / static_cast<double>(source.paged_bytes());
  std::set<int64_t> all, mixed;
  const EpochOrder order = sampler.epoch(0);
  const auto window = static_cast<int64_t>(share * static_cast<double>(sampler.size()));
  for (int64_t i = 0; i < sampler.size(); ++i) {
    const int64_t label = label_of(source, order(i));
    all.insert(label);
    if (i < window) mixed.insert(label);
  }
  const auto classes = static_cast<double>(all.size());
  const double expected = classes * (1 - std::pow(1 - 1 / classes, static_cast<double>(window)));
  if (static_cast<double>(mixed.size()) >= expected / 2) return;
  log::warn("order: quasi_random mixes only " + std::to_string(mixed.size()) + " of " +
            std::to_string(all.size()) +
            " classes at a time, as the samples are sorted by class: `composer data write "
            "--shuffle SEED` writes them mixed");
}

class ThreadedLoader final : public BatchLoader {
 public:
  ThreadedLoader(std::shared_ptr<Source> source, ImageLoaderOptions options,
                 const LoaderOptions& common, std::unique_ptr<ArrayAllocator> allocator)
      : source_(std::move(source)),
        indices_(index_store_of(*source_, common)),
        coefficients_(coefficient_store_of(*source_, common)),
        options_(std::move(options)),
        common_(in_samples(common, options_.views)),
        sampler_(*source_, order_options(*source_, options_, common_)),
        normalizer_(options_.table.empty()
                        ? PixelNormalizer(options_.normalization.mean, options_.normalization.std)
                        : PixelNormalizer(options_.table)),
        batches_(batches_of(sampler_.size(), options_, common_)),
        bad_samples_(common_.on_bad_sample, named_bad_samples(options_)),
        ahead_(read_ahead()),
        fill_plan_{.source = *source_,
                   .ahead = ahead_.get(),
                   .indices = indices_.get(),
                   .coefficients = coefficients_.get(),
                   .options = options_,
                   .common = common_,
                   .epoch_samples = sampler_.size(),
                   .repeats = sampler_.repeats(),
                   .normalizer = normalizer_,
                   .bad_samples = bad_samples_},
        arrays_(std::move(allocator)),
        queue_(queue_limits(batches_, options_, common_, source_->channels())),
        following_(source_->follow([this](const auto& visit) { forecast(visit); })) {
    if (options_.order != OrderKind::quasi_random) return;
    const uint64_t window = window_bytes(*source_, sampler_, options_.window_pages);
    warn_of_little_memory(*source_, window);
    warn_of_few_classes(*source_, sampler_, window);
  }

  ~ThreadedLoader() override {
    leaving_ = true;  // threads that wait for a store, in forecast() too, leave first
    if (ahead_) ahead_->leave();
    queue_.stop();
    following_.reset();
    for (auto& worker : workers_) worker.join();
    if (indices_) indices_->save();
  }

  int64_t batches_per_epoch() const override { return batches_; }
  int64_t samples_per_epoch() const override {
    return std::min(sampler_.size(), batches_ * common_.batch_size) * options_.views;
  }
  int64_t num_samples() const override { return sampler_.size(); }
  ImageSize image_size() const override { return options_.transform.size; }
  const Normalization& normalization() const override { return options_.normalization; }
  std::string sample_name(int64_t index) const override { return source_->name(index); }
  std::string digest() const override { return digest_of(*source_); }

  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    if (epoch < 0 || batch < 0 || batch > batches_) {
      throw RunError("cannot go on from batch " + std::to_string(batch) + " of epoch " +
                     std::to_string(epoch) + ": an epoch has " + quantity(batches_, "batch"));
    }
    if (!options_.training) plan = {};
    int64_t sequence = ahead_ ? ahead_->restart(epoch, batch) : 0;
    queue_.restart(
        epoch, batch,
        [this, sequence, plan = std::move(plan)](int64_t of_epoch, int64_t number) mutable {
          auto slot = open_slot(of_epoch, number, plan);
          slot->sequence = sequence;
          sequence += slot->samples;
          return slot;
        });
    epoch_ = epoch, batch_ = batch, started_ = true;
    next_batch_ = epoch * batches_ + batch;
    while (static_cast<int64_t>(workers_.size()) < common_.num_workers) add_worker();
  }

  void add_transform(SampleTransform transform) override {
    options_.augmentations.push_back(std::move(transform));
  }

  std::optional<BatchArrays> next() override {
    if (!started_) start(0, 0, {});
    if (batch_ == batches_) {
      ++epoch_, batch_ = 0;
      if (!options_.training) {
        arrays_->clear();
        if (ahead_) ahead_->rest();
        if (common_.world_size == 1) bad_samples_.sum_up(samples_per_epoch());
      }
      return std::nullopt;
    }
    ask();
    if (common_.num_workers == 0) fill_here();
    const auto slot = queue_.next();
    next_batch_ = epoch_ * batches_ + batch_ + 1;
    if (++batch_ == batches_) {
      if (indices_) indices_->save();
      if (coefficients_) coefficients_->save();
    }
    return batch_of(*slot);
  }

  bool ready_within(std::chrono::milliseconds time) override {
    if (!started_) start(0, 0, {});
    if (batch_ == batches_ || common_.num_workers == 0) return true;
    ask();
    return queue_.ready_within(time);
  }

 private:
  /// The consumer wants a batch of the present epoch.
  void ask() {
    queue_.ask(epoch_);
    if (ahead_) ahead_->ask(epoch_);
  }

  void add_worker() try {
    workers_.emplace_back([this, number = workers_.size()] {
      const LeaveWhen leaving(leaving_);
      set_thread_name((options_.training ? "loader " : "eval loader ") + std::to_string(number));
      work();
    });
  } catch (const std::system_error& problem) {
    throw RunError("loader threads: of " + std::to_string(common_.num_workers) +
                   " the system gave " + std::to_string(workers_.size()) + " (" +
                   problem.code().message() + "); give a smaller dataloader.num_workers");
  }

  void work() {
    SlotFiller filler(fill_plan_);
    Task task;
    const auto sleep = [this] {
      const WorkRange range("wait", /*lasting=*/true);
      return queue_.wait();
    };
    do {
      while (queue_.take(task)) {
        filler.fill(task);
        queue_.finish(task);
      }
    } while (sleep());
  }

  /// Fills the next batch on this thread, where there are no workers.
  void fill_here() {
    if (!filler_here_) filler_here_ = std::make_unique<SlotFiller>(fill_plan_);
    Task task;
    while (!queue_.ready() && queue_.take(task)) {
      filler_here_->fill(task);
      queue_.finish(task);
    }
  }

  std::shared_ptr<BatchSlot> open_slot(int64_t epoch, int64_t batch, const SizePlan& plan) {
    auto slot = std::make_shared<BatchSlot>();
    slot->epoch = epoch;
    const EpochSlice slice = slice_of(batch, sampler_.size(), common_);
    slot->first = slice.first;
    slot->samples = slice.of_batch.own;
    slot->size = plan ? plan(epoch * batches_ + batch) : options_.transform.size;
    if (order_epoch_ != epoch || options_.given) {  // a given one may have been replaced
      order_ = sampler_.epoch(epoch);
      order_epoch_ = epoch;
      if (!order_) throw RunError("epoch " + std::to_string(epoch) + " has no given order");
    }
    slot->order = order_;
    const int64_t images = slot->samples * options_.views;
    BatchArrays& arrays = slot->arrays;
    if (common_.on_bad_sample == OnBadSample::error)
      arrays.share = {slice.of_batch.first * options_.views, images,
                      slice.of_batch.samples * options_.views, common_.world_size};
    arrays.images = arrays_->reused(
        {images, slot->size.height, slot->size.width, source_->channels()}, options_.output);
    arrays.indices = arrays_->fresh({images}, ElementType::int64);
    if (const int64_t values = source_->num_values(); values > 0)
      arrays.values = arrays_->fresh({images, values}, ElementType::float32);
    else
      arrays.classes = arrays_->fresh({images}, ElementType::int64);
    return slot;
  }

  std::unique_ptr<ReadAhead> read_ahead() {
    if (common_.num_workers == 0) return nullptr;
    const bool windows = options_.order == OrderKind::quasi_random ||
                         (options_.given && options_.given->whole_pages);
    return make_read_ahead({.source = *source_,
                            .sampler = sampler_,
                            .options = common_,
                            .batches = batches_,
                            .all_epochs = options_.training,
                            .limits = options_.read_ahead,
                            .window_pages = windows ? options_.window_pages : 0});
  }

  /// Visits the samples of all ranks.
  void forecast(const std::function<void(int64_t sample)>& visit) const {
    const int64_t first = next_batch_, samples = samples_per_epoch() / options_.views;
    for (int64_t epoch = first / batches_; epoch <= first / batches_ + 1; ++epoch) {
      const EpochOrder order = sampler_.epoch(epoch);
      if (!order) continue;
      const int64_t batch_in_epoch = first - epoch * batches_;  // negative in the next epoch
      const auto position = [&](int64_t batch) {
        return std::clamp<int64_t>(batch * common_.batch_size, 0, samples);
      };
      const int64_t begin = position(std::max<int64_t>(batch_in_epoch, 0));
      const int64_t end = batch_in_epoch < 0 ? position(batch_in_epoch + batches_) : samples;
      for (int64_t at = begin; at < end; ++at) visit(order(at));
    }
  }

  BatchArrays batch_of(BatchSlot& slot) const {
    const WorkRange range("collate");
    BatchArrays batch = std::move(slot.arrays);
    if (slot.bad.empty()) return batch;
    std::vector<int64_t> good;
    for (int64_t i = 0; i < slot.samples; ++i)
      if (!slot.bad.contains(i)) good.push_back(i);
    if (good.empty() && options_.training && common_.world_size == 1) {
      throw RunError("not one sample of batch " + std::to_string(slot.first / common_.batch_size) +
                     " of epoch " + std::to_string(slot.epoch) + " can be read");
    }
    for (Array* array : {&batch.images, &batch.classes, &batch.values, &batch.indices}) {
      if (array->defined()) *array = rows_of(*array, good);
    }
    return batch;
  }

  /// The rows of the good samples, with all their views.
  Array rows_of(const Array& all, const std::vector<int64_t>& good) const {
    std::vector<int64_t> shape = all.shape;
    shape[0] = std::ssize(good) * options_.views;
    Array kept = arrays_->fresh(shape, all.type);
    const auto bytes = static_cast<size_t>(all.row_bytes() * options_.views);
    auto* to = kept.as<std::byte>();
    for (const int64_t sample : good) {
      std::memcpy(to, all.as<std::byte>() + static_cast<size_t>(sample) * bytes, bytes);
      to += bytes;
    }
    return kept;
  }

  const std::shared_ptr<Source> source_;
  const std::unique_ptr<IndexStore> indices_;             ///< null: no crop indices are kept
  const std::unique_ptr<CoefficientStore> coefficients_;  ///< null: none are kept
  ImageLoaderOptions options_;
  const LoaderOptions common_;
  const Sampler sampler_;
  const PixelNormalizer normalizer_;
  const int64_t batches_;
  BadSampleLog bad_samples_;
  std::atomic<int64_t> next_batch_{0};      ///< the consumer's next batch, counted over all epochs
  const std::unique_ptr<ReadAhead> ahead_;  ///< null: nothing is read ahead
  const FillPlan fill_plan_;
  const std::unique_ptr<ArrayAllocator> arrays_;

  // Used by the consumer alone.
  bool started_ = false;
  int64_t epoch_ = 0, batch_ = 0;
  std::unique_ptr<SlotFiller> filler_here_;

  // Used by open_slot() alone, which the queue calls on one thread at a time.
  EpochOrder order_;
  int64_t order_epoch_ = -1;

  SlotQueue queue_;
  std::atomic<bool> leaving_{false};
  std::vector<std::thread> workers_;
  std::shared_ptr<void> following_;  ///< the source calls forecast() while this lives
};

}  // namespace

std::unique_ptr<BatchLoader> make_batch_loader(std::shared_ptr<Source> source,
                                               ImageLoaderOptions options,
                                               const LoaderOptions& common,
                                               std::unique_ptr<ArrayAllocator> allocator) {
  if (common.decoded) {
    auto decoded = std::make_shared<DecodedSource>(std::move(source), common.decoded->most);
    common.decoded->kept = decoded->decoded();
    source = std::move(decoded);
  }
  return std::make_unique<ThreadedLoader>(std::move(source), std::move(options), common,
                                          std::move(allocator));
}

}  // namespace composer
