#include "data/image_loader.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "data/pixels/normalize_pixels.h"

namespace composer {
namespace {

/// Memory for batches: it comes back when the last tensor that shares it goes, in whatever thread.
/// Up to `kept` free blocks are kept for the next batches.
class TensorPool {
 public:
  TensorPool(size_t kept, bool pinned) : shelf_(std::make_shared<Shelf>()), pinned_(pinned) {
    shelf_->blocks.reserve(kept);
  }

  at::Tensor images(at::IntArrayRef shape, at::ScalarType type) {
    // Pinned memory may still be read by a copy to the device after its last holder let go. Its
    // allocator knows when such a copy is done, and caches too.
    if (pinned_) return fresh(shape, type);
    at::Tensor block =
        take(c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type)));
    void* const memory = block.mutable_data_ptr();
    return at::from_blob(
        memory, shape, [shelf = shelf_, block](void*) { shelf->put(block); }, type);
  }

  at::Tensor fresh(at::IntArrayRef shape, at::ScalarType type) const {
    return at::empty(shape, at::TensorOptions(type).pinned_memory(pinned_));
  }

  /// Lets go of the free blocks.
  void clear() {
    const std::lock_guard guard(shelf_->lock);
    shelf_->blocks.clear();
  }

 private:
  struct Shelf {
    std::mutex lock;
    std::vector<at::Tensor> blocks;  // never more than its capacity: put() must not throw

    void put(const at::Tensor& block) {
      const std::lock_guard guard(lock);
      if (blocks.size() < blocks.capacity()) blocks.push_back(block);
    }
  };

  at::Tensor take(int64_t bytes) {
    const std::lock_guard guard(shelf_->lock);
    auto& blocks = shelf_->blocks;
    const auto fitting = std::find_if(blocks.begin(), blocks.end(),
                                      [&](const at::Tensor& b) { return b.numel() >= bytes; });
    at::Tensor block = fitting != blocks.end() ? std::move(*fitting) : at::Tensor();
    if (fitting != blocks.end()) blocks.erase(fitting);
    if (block.defined()) return block;
    if (!blocks.empty()) blocks.pop_back();  // too small, like all of them
    return at::empty({bytes}, at::TensorOptions(at::kByte));
  }

  std::shared_ptr<Shelf> shelf_;
  bool pinned_;
};

/// A batch in the making, or a rank's slice of it. Only `taken`, `done`, the failure and the bad
/// ones change while workers fill it; these under the lock.
struct Slot {
  int64_t epoch = 0;
  int64_t first = 0;  ///< position of its first sample in the epoch
  int64_t samples = 0;
  ImageSize size;
  EpochOrder order;
  at::Tensor input, classes;
  int64_t taken = 0;
  int64_t done = 0;
  int64_t failed_at = std::numeric_limits<int64_t>::max();
  std::exception_ptr failure;
  std::set<int64_t> bad;  ///< places of samples that were skipped
  std::atomic<bool> dropped{false};
};

/// Some consecutive images of a slot: a worker's unit of work.
struct Task {
  std::shared_ptr<Slot> slot;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t failed_at = std::numeric_limits<int64_t>::max();
  std::exception_ptr failure = nullptr;
  std::vector<int64_t> bad = {};
};

/// What a thread needs to make images.
struct Worker {
  Pipeline pipeline;
  std::vector<uint8_t> pixels;  // of an image that becomes numbers

  Worker(const Transform& transform, int64_t channels) : pipeline(transform, channels) {}
};

/// A sample that cannot be read, as opposed to a failure of the program.
struct BadSample : RunError {
  using RunError::RunError;
};

class ImageLoader final : public Loader {
 public:
  ImageLoader(std::shared_ptr<Source> source, ImageLoaderOptions options,
              const LoaderOptions& common);
  ~ImageLoader() override;

  int64_t batches_per_epoch() const override { return batches_; }
  int64_t samples_per_epoch() const override {
    return std::min(sampler_.size(), batches_ * common_.batch_size);
  }
  ImageSize image_size() const override { return options_.transform.size; }
  const Normalization& normalization() const override { return options_.normalization; }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override;
  void add_transform(SampleTransform transform) override {
    options_.augmentations.push_back(std::move(transform));
  }
  std::optional<Batch> next() override;

 private:
  void work();
  bool take(Task& task);
  void fill(Task& task, Worker& worker);
  void make(const Slot& slot, int64_t place, int64_t position, Worker& worker) const;
  bool replace(const Slot& slot, int64_t place, int64_t position, Worker& worker);
  void report(const BadSample& bad);
  void finish(const Task& task);
  void open_slot();
  std::shared_ptr<Slot> made_here();
  std::shared_ptr<Slot> made_by_workers();
  Batch batch_of(Slot& slot) const;

  const std::shared_ptr<Source> source_;
  ImageLoaderOptions options_;
  const LoaderOptions common_;
  const Sampler sampler_;
  const PixelNormalizer normalizer_;
  int64_t batches_ = 0;
  int64_t images_a_task_ = 1;

  // Of the consumer.
  bool started_ = false;
  int64_t epoch_ = 0, batch_ = 0;
  std::unique_ptr<Worker> worker_here_;

  // Under the lock. The front slot is the next to hand out; only the back one has images that
  // nobody has taken.
  std::mutex lock_;
  std::condition_variable work_there_, batch_there_;
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t open_epoch_ = 0, open_batch_ = 0;  ///< of the next slot
  int64_t asked_epoch_ = 0;                  ///< the last one that the consumer wants a batch of
  SizePlan plan_;
  EpochOrder order_;
  int64_t order_epoch_ = -1;
  TensorPool pool_;
  std::exception_ptr cannot_open_;
  bool stopping_ = false;
  std::set<std::string> reported_;

  std::vector<std::thread> workers_;
};

OrderOptions order_options(const Source& source, const ImageLoaderOptions& options,
                           const LoaderOptions& common) {
  return {.kind = options.order,
          .subset = parse_rows(options.rows, source.size(), "rows"),
          .seed = common.seed,
          .window_pages = options.window_pages};
}

ImageLoader::ImageLoader(std::shared_ptr<Source> source, ImageLoaderOptions options,
                         const LoaderOptions& common)
    : source_(std::move(source)),
      options_(std::move(options)),
      common_(common),
      sampler_(*source_, order_options(*source_, options_, common_)),
      normalizer_(options_.normalization.mean, options_.normalization.std),
      pool_(static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0)) + 3,
            common.pin_memory && at::getNumGPUs() > 0) {
  const int64_t samples = sampler_.size(), size = common_.batch_size;
  if (samples == 0) throw UserError("the data set has no samples");
  if (options_.drop_last && samples < size) {
    throw UserError("the data set has " + std::to_string(samples) +
                    " samples, fewer than one batch of " + std::to_string(size) +
                    "; make the batch smaller or set drop_last: false");
  }
  batches_ = options_.drop_last ? samples / size : (samples + size - 1) / size;
  if (common_.subset_num_batches) {
    if (*common_.subset_num_batches > batches_) {
      log::warn("subset_num_batches: " + std::to_string(*common_.subset_num_batches) +
                " is more than the " + std::to_string(batches_) +
                " batches of an epoch; all of them are used");
    }
    batches_ = std::clamp<int64_t>(*common_.subset_num_batches, 1, batches_);
  }
  // Small images would cost more in locking than in work.
  constexpr int64_t kTaskBytes = 192 * 1024;
  const ImageSize image = options_.transform.size;
  images_a_task_ =
      std::clamp<int64_t>(kTaskBytes / (image.height * image.width * source_->channels()), 1, 64);
}

ImageLoader::~ImageLoader() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
    for (const auto& slot : slots_) slot->dropped = true;
  }
  work_there_.notify_all();
  for (auto& worker : workers_) worker.join();
  source_->save_indices();
}

void ImageLoader::start(int64_t epoch, int64_t batch, SizePlan plan) {
  if (epoch < 0 || batch < 0 || batch > batches_) {
    throw RunError("cannot go on from batch " + std::to_string(batch) + " of epoch " +
                   std::to_string(epoch) + ": an epoch has " + std::to_string(batches_) +
                   " batches");
  }
  {
    const std::lock_guard guard(lock_);
    for (const auto& slot : slots_) slot->dropped = true;
    slots_.clear();
    cannot_open_ = nullptr;
    plan_ = options_.training ? std::move(plan) : SizePlan();
    open_epoch_ = batch == batches_ ? epoch + 1 : epoch;
    open_batch_ = batch == batches_ ? 0 : batch;
    asked_epoch_ = epoch;
  }
  epoch_ = epoch, batch_ = batch, started_ = true;
  while (static_cast<int64_t>(workers_.size()) < common_.num_workers) {
    workers_.emplace_back([this] { work(); });
  }
  work_there_.notify_all();
}

std::optional<Batch> ImageLoader::next() {
  if (!started_) start(0, 0, {});
  if (batch_ == batches_) {
    ++epoch_, batch_ = 0;
    if (!options_.training) pool_.clear();
    return std::nullopt;
  }
  const auto slot = common_.num_workers == 0 ? made_here() : made_by_workers();
  if (++batch_ == batches_) source_->save_indices();
  return batch_of(*slot);
}

Batch ImageLoader::batch_of(Slot& slot) const {
  Batch batch;
  batch.input = std::move(slot.input);
  batch.target.classes = std::move(slot.classes);
  if (slot.bad.empty()) return batch;
  std::vector<int64_t> good;
  for (int64_t i = 0; i < slot.samples; ++i) {
    if (!slot.bad.contains(i)) good.push_back(i);
  }
  if (good.empty()) {
    throw RunError("not one sample of batch " + std::to_string(slot.first / common_.batch_size) +
                   " of epoch " + std::to_string(slot.epoch) + " can be read");
  }
  const auto places = at::tensor(good, at::kLong);
  batch.input = batch.input.index_select(0, places);
  batch.target.classes = batch.target.classes.index_select(0, places);
  return batch;
}

std::shared_ptr<Slot> ImageLoader::made_here() {
  if (slots_.empty()) open_slot();
  if (!worker_here_) {
    worker_here_ = std::make_unique<Worker>(options_.transform, source_->channels());
  }
  const auto slot = slots_.front();
  Task task{.slot = slot, .begin = 0, .end = slot->samples};
  fill(task, *worker_here_);
  if (task.failure) std::rethrow_exception(task.failure);
  slot->bad.insert(task.bad.begin(), task.bad.end());
  slots_.pop_front();
  return slot;
}

std::shared_ptr<Slot> ImageLoader::made_by_workers() {
  std::unique_lock guard(lock_);
  if (std::exchange(asked_epoch_, epoch_) != epoch_) work_there_.notify_all();
  const auto complete = [&] {
    return !slots_.empty() && slots_.front()->done == slots_.front()->samples;
  };
  batch_there_.wait(guard, [&] { return complete() || (slots_.empty() && cannot_open_); });
  if (slots_.empty()) std::rethrow_exception(cannot_open_);
  const auto slot = slots_.front();
  if (slot->failure) std::rethrow_exception(slot->failure);
  slots_.pop_front();
  guard.unlock();
  work_there_.notify_all();
  return slot;
}

void ImageLoader::open_slot() {
  auto slot = std::make_shared<Slot>();
  slot->epoch = open_epoch_;
  const int64_t begin = open_batch_ * common_.batch_size;
  int64_t samples = std::min(common_.batch_size, sampler_.size() - begin);
  const int64_t ranks = common_.world_size;
  const bool whole = samples == common_.batch_size;
  if (options_.training && !whole) samples = (samples + ranks - 1) / ranks * ranks;
  slot->first = begin + samples * common_.rank / ranks;
  slot->samples = begin + samples * (common_.rank + 1) / ranks - slot->first;
  slot->size = plan_ ? plan_(open_epoch_ * batches_ + open_batch_) : options_.transform.size;
  if (order_epoch_ != open_epoch_) {
    order_ = sampler_.epoch(open_epoch_);
    order_epoch_ = open_epoch_;
  }
  slot->order = order_;
  slot->input = pool_.images(
      {slot->samples, slot->size.height, slot->size.width, source_->channels()}, options_.output);
  slot->classes = pool_.fresh({slot->samples}, at::kLong);
  if (options_.read_ahead) {
    for (int64_t i = 0; i < slot->samples; ++i) {
      source_->will_need(order_((slot->first + i) % sampler_.size()));
    }
  }
  slots_.push_back(std::move(slot));
  if (++open_batch_ == batches_) ++open_epoch_, open_batch_ = 0;
}

bool ImageLoader::take(Task& task) {
  std::unique_lock guard(lock_);
  const auto most = static_cast<size_t>(std::max<int64_t>(common_.prefetch_factor, 0)) + 1;
  while (!stopping_) {
    if (!slots_.empty() && slots_.back()->taken < slots_.back()->samples) {
      const auto& slot = slots_.back();
      task = {.slot = slot,
              .begin = slot->taken,
              .end = std::min(slot->taken + images_a_task_, slot->samples)};
      slot->taken = task.end;
      return true;
    }
    const bool wanted = options_.training || open_epoch_ <= asked_epoch_;
    if (wanted && slots_.size() < most && !cannot_open_) {
      try {
        open_slot();
        if (slots_.back()->samples == 0) batch_there_.notify_all();
        work_there_.notify_all();
      } catch (...) {
        cannot_open_ = std::current_exception();
        batch_there_.notify_all();
      }
    } else {
      work_there_.wait(guard);
    }
  }
  return false;
}

void ImageLoader::work() {
  Worker worker(options_.transform, source_->channels());
  Task task;
  while (take(task)) {
    fill(task, worker);
    finish(task);
    task.slot.reset();
  }
}

void ImageLoader::fill(Task& task, Worker& worker) {
  const Slot& slot = *task.slot;
  for (int64_t i = task.begin; i < task.end && !slot.dropped; ++i) {
    try {
      try {
        make(slot, i, slot.first + i, worker);
      } catch (const BadSample& bad) {
        if (common_.on_bad_sample == OnBadSample::error) throw RunError(bad.what());
        report(bad);
        const bool replaced = common_.on_bad_sample == OnBadSample::replace &&
                              replace(slot, i, slot.first + i, worker);
        if (!replaced) task.bad.push_back(i);
      }
    } catch (...) {
      task.failed_at = i;
      task.failure = std::current_exception();
      return;
    }
  }
}

/// Puts the sample at `position` of the epoch into the slot.
void ImageLoader::make(const Slot& slot, int64_t place, int64_t position, Worker& worker) const {
  const int64_t sample = slot.order(position % sampler_.size());
  const int64_t numbers = slot.size.height * slot.size.width * source_->channels();
  // A class-balanced epoch may have a sample twice, which then shall not look the same.
  const int64_t drawn_by = options_.order == OrderKind::class_balanced ? position : sample;
  SamplePlace where{common_.seed, static_cast<uint64_t>(slot.epoch),
                    static_cast<uint64_t>(drawn_by)};
  const bool bytes = options_.output == at::kByte;
  uint8_t* pixels = nullptr;
  if (bytes) {
    pixels = slot.input.mutable_data_ptr<uint8_t>() + place * numbers;
  } else {
    worker.pixels.resize(static_cast<size_t>(numbers));
    pixels = worker.pixels.data();
  }
  try {
    const StoredImage image = source_->open(sample, worker.pipeline.scratch());
    slot.classes.mutable_data_ptr<int64_t>()[place] = source_->label(sample);
    where.mirrored = worker.pipeline.run(image, slot.size, where, pixels);
  } catch (const RunError& error) {
    throw BadSample(source_->name(sample) + ": " + error.what());
  }
  for (const auto& augment : options_.augmentations) {
    augment({pixels, slot.size.height, slot.size.width, source_->channels()}, where);
  }
  if (bytes) return;
  if (options_.output == at::kFloat) {
    normalizer_.run(pixels, numbers, slot.input.mutable_data_ptr<float>() + place * numbers);
  } else {
    auto* out = slot.input.mutable_data_ptr<at::BFloat16>() + place * numbers;
    normalizer_.run_bf16(pixels, numbers, reinterpret_cast<uint16_t*>(out));
  }
}

/// Takes the next sample of the epoch that can be read; false when a hundred in a row cannot.
bool ImageLoader::replace(const Slot& slot, int64_t place, int64_t position, Worker& worker) {
  constexpr int64_t kMost = 100;
  for (int64_t next = 1; next <= kMost; ++next) {
    try {
      make(slot, place, position + next, worker);
      return true;
    } catch (const BadSample& bad) {
      report(bad);
    }
  }
  return false;
}

void ImageLoader::report(const BadSample& bad) {
  constexpr size_t kMost = 20;
  const std::lock_guard guard(lock_);
  if (reported_.size() > kMost || !reported_.insert(bad.what()).second) return;
  const std::string done =
      common_.on_bad_sample == OnBadSample::skip ? "skipped: " : "replaced by another: ";
  log::warn(reported_.size() > kMost
                ? "more bad samples are not listed; `composer data verify` lists all"
                : done + bad.what());
}

void ImageLoader::finish(const Task& task) {
  const std::lock_guard guard(lock_);
  Slot& slot = *task.slot;
  slot.done += task.end - task.begin;
  slot.bad.insert(task.bad.begin(), task.bad.end());
  if (task.failed_at < slot.failed_at) {
    slot.failed_at = task.failed_at;
    slot.failure = task.failure;
  }
  if (slot.done == slot.samples) batch_there_.notify_all();
}

}  // namespace

std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common) {
  return std::make_unique<ImageLoader>(std::move(source), std::move(options), common);
}

}  // namespace composer
