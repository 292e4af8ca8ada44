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
#include "data/index_place.h"
#include "data/pixels/normalize_pixels.h"
#include "data/rows.h"

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
struct Draft {
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

/// Some consecutive images of a draft: a worker's unit of work.
struct Task {
  std::shared_ptr<Draft> draft;
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
  std::optional<RawBatch> next() override;

 private:
  void work();
  bool take(Task& task);
  void fill(Task& task, Worker& worker);
  void make(const Draft& draft, int64_t place, int64_t position, Worker& worker) const;
  bool replace(const Draft& draft, int64_t place, int64_t position, Worker& worker);
  void report(const BadSample& bad);
  void finish(const Task& task);
  void open_draft();
  std::shared_ptr<Draft> made_here();
  std::shared_ptr<Draft> made_by_workers();
  RawBatch batch_of(Draft& draft) const;

  const std::shared_ptr<Source> source_;
  const std::unique_ptr<IndexStore> indices_;  ///< null when none are kept
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

  // Under the lock. The front draft is the next to hand out; only the back one has images that
  // nobody has taken.
  std::mutex lock_;
  std::condition_variable work_there_, batch_there_;
  std::deque<std::shared_ptr<Draft>> drafts_;
  int64_t open_epoch_ = 0, open_batch_ = 0;  ///< of the next draft
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
          .subset = chosen_rows(source, options.rows, options.training, common),
          .seed = common.seed,
          .window_pages = options.window_pages};
}

std::unique_ptr<IndexStore> indices_of(const Source& source, const LoaderOptions& common) {
  const auto path = source.indexed_path();
  return path.empty() ? nullptr : open_index_store(path, common);
}

ImageLoader::ImageLoader(std::shared_ptr<Source> source, ImageLoaderOptions options,
                         const LoaderOptions& common)
    : source_(std::move(source)),
      indices_(indices_of(*source_, common)),
      options_(std::move(options)),
      common_(common),
      sampler_(*source_, order_options(*source_, options_, common_)),
      normalizer_(options_.normalization.mean, options_.normalization.std),
      pool_(static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0)) + 3,
            common.pin_memory) {
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
    for (const auto& draft : drafts_) draft->dropped = true;
  }
  work_there_.notify_all();
  for (auto& worker : workers_) worker.join();
  if (indices_) indices_->save();
}

void ImageLoader::start(int64_t epoch, int64_t batch, SizePlan plan) {
  if (epoch < 0 || batch < 0 || batch > batches_) {
    throw RunError("cannot go on from batch " + std::to_string(batch) + " of epoch " +
                   std::to_string(epoch) + ": an epoch has " + std::to_string(batches_) +
                   " batches");
  }
  {
    const std::lock_guard guard(lock_);
    for (const auto& draft : drafts_) draft->dropped = true;
    drafts_.clear();
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

std::optional<RawBatch> ImageLoader::next() {
  if (!started_) start(0, 0, {});
  if (batch_ == batches_) {
    ++epoch_, batch_ = 0;
    if (!options_.training) pool_.clear();
    return std::nullopt;
  }
  const auto draft = common_.num_workers == 0 ? made_here() : made_by_workers();
  if (++batch_ == batches_ && indices_) indices_->save();
  return batch_of(*draft);
}

RawBatch ImageLoader::batch_of(Draft& draft) const {
  RawBatch batch;
  batch.images = std::move(draft.input);
  batch.target.classes = std::move(draft.classes);
  if (draft.bad.empty()) return batch;
  std::vector<int64_t> good;
  for (int64_t i = 0; i < draft.samples; ++i) {
    if (!draft.bad.contains(i)) good.push_back(i);
  }
  if (good.empty()) {
    throw RunError("not one sample of batch " + std::to_string(draft.first / common_.batch_size) +
                   " of epoch " + std::to_string(draft.epoch) + " can be read");
  }
  const auto places = at::tensor(good, at::kLong);
  batch.images = batch.images.index_select(0, places);
  batch.target.classes = batch.target.classes.index_select(0, places);
  return batch;
}

std::shared_ptr<Draft> ImageLoader::made_here() {
  if (drafts_.empty()) open_draft();
  if (!worker_here_) {
    worker_here_ = std::make_unique<Worker>(options_.transform, source_->channels());
  }
  const auto draft = drafts_.front();
  Task task{.draft = draft, .begin = 0, .end = draft->samples};
  fill(task, *worker_here_);
  if (task.failure) std::rethrow_exception(task.failure);
  draft->bad.insert(task.bad.begin(), task.bad.end());
  drafts_.pop_front();
  return draft;
}

std::shared_ptr<Draft> ImageLoader::made_by_workers() {
  std::unique_lock guard(lock_);
  if (std::exchange(asked_epoch_, epoch_) != epoch_) work_there_.notify_all();
  const auto complete = [&] {
    return !drafts_.empty() && drafts_.front()->done == drafts_.front()->samples;
  };
  batch_there_.wait(guard, [&] { return complete() || (drafts_.empty() && cannot_open_); });
  if (drafts_.empty()) std::rethrow_exception(cannot_open_);
  const auto draft = drafts_.front();
  if (draft->failure) std::rethrow_exception(draft->failure);
  drafts_.pop_front();
  guard.unlock();
  work_there_.notify_all();
  return draft;
}

void ImageLoader::open_draft() {
  auto draft = std::make_shared<Draft>();
  draft->epoch = open_epoch_;
  const int64_t begin = open_batch_ * common_.batch_size;
  int64_t samples = std::min(common_.batch_size, sampler_.size() - begin);
  const int64_t ranks = common_.world_size;
  const bool whole = samples == common_.batch_size;
  if (options_.training && !whole) samples = (samples + ranks - 1) / ranks * ranks;
  draft->first = begin + samples * common_.rank / ranks;
  draft->samples = begin + samples * (common_.rank + 1) / ranks - draft->first;
  draft->size = plan_ ? plan_(open_epoch_ * batches_ + open_batch_) : options_.transform.size;
  if (order_epoch_ != open_epoch_) {
    order_ = sampler_.epoch(open_epoch_);
    order_epoch_ = open_epoch_;
  }
  draft->order = order_;
  draft->input =
      pool_.images({draft->samples, draft->size.height, draft->size.width, source_->channels()},
                   options_.output);
  draft->classes = pool_.fresh({draft->samples}, at::kLong);
  if (options_.read_ahead) {
    for (int64_t i = 0; i < draft->samples; ++i) {
      source_->will_need(order_((draft->first + i) % sampler_.size()));
    }
  }
  drafts_.push_back(std::move(draft));
  if (++open_batch_ == batches_) ++open_epoch_, open_batch_ = 0;
}

bool ImageLoader::take(Task& task) {
  std::unique_lock guard(lock_);
  const auto most = static_cast<size_t>(std::max<int64_t>(common_.prefetch_factor, 0)) + 1;
  while (!stopping_) {
    if (!drafts_.empty() && drafts_.back()->taken < drafts_.back()->samples) {
      const auto& draft = drafts_.back();
      task = {.draft = draft,
              .begin = draft->taken,
              .end = std::min(draft->taken + images_a_task_, draft->samples)};
      draft->taken = task.end;
      return true;
    }
    const bool wanted = options_.training || open_epoch_ <= asked_epoch_;
    if (wanted && drafts_.size() < most && !cannot_open_) {
      try {
        open_draft();
        if (drafts_.back()->samples == 0) batch_there_.notify_all();
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
    task.draft.reset();
  }
}

void ImageLoader::fill(Task& task, Worker& worker) {
  const Draft& draft = *task.draft;
  for (int64_t i = task.begin; i < task.end && !draft.dropped; ++i) {
    try {
      try {
        make(draft, i, draft.first + i, worker);
      } catch (const BadSample& bad) {
        if (common_.on_bad_sample == OnBadSample::error) throw RunError(bad.what());
        report(bad);
        const bool replaced = common_.on_bad_sample == OnBadSample::replace &&
                              replace(draft, i, draft.first + i, worker);
        if (!replaced) task.bad.push_back(i);
      }
    } catch (...) {
      task.failed_at = i;
      task.failure = std::current_exception();
      return;
    }
  }
}

/// Puts the sample at `position` of the epoch into the draft.
void ImageLoader::make(const Draft& draft, int64_t place, int64_t position, Worker& worker) const {
  const int64_t sample = draft.order(position % sampler_.size());
  const int64_t numbers = draft.size.height * draft.size.width * source_->channels();
  // A class-balanced epoch may have a sample twice, which then shall not look the same.
  const int64_t drawn_by = options_.order == OrderKind::class_balanced ? position : sample;
  SamplePlace where{common_.seed, static_cast<uint64_t>(draft.epoch),
                    static_cast<uint64_t>(drawn_by)};
  const bool bytes = options_.output == at::kByte;
  uint8_t* pixels = nullptr;
  if (bytes) {
    pixels = draft.input.mutable_data_ptr<uint8_t>() + place * numbers;
  } else {
    worker.pixels.resize(static_cast<size_t>(numbers));
    pixels = worker.pixels.data();
  }
  try {
    StoredImage image = source_->open(sample, worker.pipeline.scratch());
    if (indices_) image.index.use(*indices_);
    draft.classes.mutable_data_ptr<int64_t>()[place] = source_->label(sample);
    where.mirrored =
        use_image(image, [&] { return worker.pipeline.run(image, draft.size, where, pixels); });
  } catch (const RunError& error) {
    throw BadSample(source_->name(sample) + ": " + error.what());
  }
  for (const auto& augment : options_.augmentations) {
    augment({pixels, draft.size.height, draft.size.width, source_->channels()}, where);
  }
  if (bytes) return;
  if (options_.output == at::kFloat) {
    normalizer_.run(pixels, numbers, draft.input.mutable_data_ptr<float>() + place * numbers);
  } else {
    auto* out = draft.input.mutable_data_ptr<at::BFloat16>() + place * numbers;
    normalizer_.run_bf16(pixels, numbers, reinterpret_cast<uint16_t*>(out));
  }
}

/// Takes the next sample of the epoch that can be read; false when a hundred in a row cannot.
bool ImageLoader::replace(const Draft& draft, int64_t place, int64_t position, Worker& worker) {
  constexpr int64_t kMost = 100;
  for (int64_t next = 1; next <= kMost; ++next) {
    try {
      make(draft, place, position + next, worker);
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
  Draft& draft = *task.draft;
  draft.done += task.end - task.begin;
  draft.bad.insert(task.bad.begin(), task.bad.end());
  if (task.failed_at < draft.failed_at) {
    draft.failed_at = task.failed_at;
    draft.failure = task.failure;
  }
  if (draft.done == draft.samples) batch_there_.notify_all();
}

}  // namespace

std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common) {
  return std::make_unique<ImageLoader>(std::move(source), std::move(options), common);
}

}  // namespace composer
