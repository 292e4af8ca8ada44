#include "data/image_loader.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/random.h"

namespace composer {
namespace {

using Order = std::vector<uint32_t>;

/// Fisher-Yates, a pure function of (seed, epoch).
std::shared_ptr<const Order> shuffled(int64_t samples, uint64_t seed, int64_t epoch) {
  auto order = std::make_shared<Order>(static_cast<size_t>(samples));
  std::iota(order->begin(), order->end(), 0u);
  Random random(seed, "data.shuffle", static_cast<uint64_t>(epoch), 0);
  for (int64_t i = samples - 1; i > 0; --i) {
    std::swap((*order)[static_cast<size_t>(i)], (*order)[static_cast<size_t>(random.below(i + 1))]);
  }
  return order;
}

/// Memory for batches: it comes back when the last tensor that shares it goes, in whatever thread.
/// Up to `kept` free blocks are kept for the next batches.
class TensorPool {
 public:
  TensorPool(size_t kept, bool pinned) : shelf_(std::make_shared<Shelf>()), pinned_(pinned) {
    shelf_->blocks.reserve(kept);
  }

  at::Tensor bytes(at::IntArrayRef shape) {
    // Pinned memory may still be read by a copy to the device after its last holder let go. Its
    // allocator knows when such a copy is done, and caches too.
    if (pinned_) return fresh(shape, at::kByte);
    at::Tensor block = take(c10::multiply_integers(shape));
    void* const memory = block.mutable_data_ptr();
    return at::from_blob(
        memory, shape, [shelf = shelf_, block](void*) { shelf->put(block); }, at::kByte);
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

/// A batch in the making. Only `taken`, `done` and the failure change while workers fill it; these
/// under the lock.
struct Slot {
  int64_t epoch = 0;
  int64_t first = 0;  ///< position of its first sample in the epoch
  int64_t samples = 0;
  ImageSize size;
  std::shared_ptr<const Order> order;  ///< none = the source's order
  at::Tensor input, classes;
  int64_t taken = 0;
  int64_t done = 0;
  int64_t failed_at = std::numeric_limits<int64_t>::max();
  std::string failure;
  std::atomic<bool> dropped{false};
};

/// Some consecutive images of a slot: a worker's unit of work.
struct Task {
  std::shared_ptr<Slot> slot;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t failed_at = std::numeric_limits<int64_t>::max();
  std::string failure;
};

class ImageLoader final : public Loader {
 public:
  ImageLoader(std::shared_ptr<const Source> source, ImageLoaderOptions options,
              const LoaderOptions& common);
  ~ImageLoader() override;

  int64_t batches_per_epoch() const override { return batches_; }
  int64_t samples_per_epoch() const override {
    return std::min(source_->size(), batches_ * common_.batch_size);
  }
  ImageSize image_size() const override { return options_.transform.size; }
  const Normalization& normalization() const override { return options_.normalization; }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override;
  std::optional<Batch> next() override;

 private:
  void work();
  bool take(Task& task);
  void fill(Task& task, ReadScratch& scratch) const;
  void finish(const Task& task);
  void open_slot();
  std::shared_ptr<Slot> made_here();
  std::shared_ptr<Slot> made_by_workers();

  const std::shared_ptr<const Source> source_;
  const ImageLoaderOptions options_;
  const LoaderOptions common_;
  int64_t batches_ = 0;
  int64_t images_a_task_ = 1;

  // Of the consumer.
  bool started_ = false;
  int64_t epoch_ = 0, batch_ = 0;
  ReadScratch scratch_;

  // Under the lock. The front slot is the next to hand out; only the back one has images that
  // nobody has taken.
  std::mutex lock_;
  std::condition_variable work_there_, batch_there_;
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t open_epoch_ = 0, open_batch_ = 0;  ///< of the next slot
  int64_t asked_epoch_ = 0;                  ///< the last one that the consumer wants a batch of
  SizePlan plan_;
  std::shared_ptr<const Order> order_;
  int64_t order_epoch_ = -1;
  TensorPool pool_;
  std::exception_ptr cannot_open_;
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

ImageLoader::ImageLoader(std::shared_ptr<const Source> source, ImageLoaderOptions options,
                         const LoaderOptions& common)
    : source_(std::move(source)),
      options_(std::move(options)),
      common_(common),
      pool_(static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0)) + 3,
            common.pin_memory && at::getNumGPUs() > 0) {
  const int64_t samples = source_->size(), size = common_.batch_size;
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
  constexpr int64_t kTaskBytes = 48 * 1024;
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
  const auto slot = workers_.empty() ? made_here() : made_by_workers();
  ++batch_;
  Batch batch;
  batch.input = std::move(slot->input);
  batch.target.classes = std::move(slot->classes);
  return batch;
}

std::shared_ptr<Slot> ImageLoader::made_here() {
  if (slots_.empty()) open_slot();
  const auto slot = slots_.front();
  Task task{slot, 0, slot->samples, slot->failed_at, {}};
  fill(task, scratch_);
  if (!task.failure.empty()) throw RunError(task.failure);
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
  if (!slot->failure.empty()) throw RunError(slot->failure);
  slots_.pop_front();
  guard.unlock();
  work_there_.notify_all();
  return slot;
}

void ImageLoader::open_slot() {
  auto slot = std::make_shared<Slot>();
  slot->epoch = open_epoch_;
  slot->first = open_batch_ * common_.batch_size;
  slot->samples = std::min(common_.batch_size, source_->size() - slot->first);
  slot->size = plan_ ? plan_(open_epoch_ * batches_ + open_batch_) : options_.transform.size;
  if (options_.shuffle && order_epoch_ != open_epoch_) {
    order_ = shuffled(source_->size(), common_.seed, open_epoch_);
    order_epoch_ = open_epoch_;
  }
  slot->order = order_;
  slot->input =
      pool_.bytes({slot->samples, slot->size.height, slot->size.width, source_->channels()});
  slot->classes = pool_.fresh({slot->samples}, at::kLong);
  slots_.push_back(std::move(slot));
  if (++open_batch_ == batches_) ++open_epoch_, open_batch_ = 0;
}

bool ImageLoader::take(Task& task) {
  std::unique_lock guard(lock_);
  const auto most = static_cast<size_t>(std::max<int64_t>(common_.prefetch_factor, 0)) + 1;
  while (!stopping_) {
    if (!slots_.empty() && slots_.back()->taken < slots_.back()->samples) {
      const auto& slot = slots_.back();
      task = {slot,
              slot->taken,
              std::min(slot->taken + images_a_task_, slot->samples),
              std::numeric_limits<int64_t>::max(),
              {}};
      slot->taken = task.end;
      return true;
    }
    const bool wanted = options_.training || open_epoch_ <= asked_epoch_;
    if (wanted && slots_.size() < most && !cannot_open_) {
      try {
        open_slot();
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
  ReadScratch scratch;
  Task task;
  while (take(task)) {
    fill(task, scratch);
    finish(task);
    task.slot.reset();
  }
}

void ImageLoader::fill(Task& task, ReadScratch& scratch) const {
  const Slot& slot = *task.slot;
  const int64_t bytes = slot.size.height * slot.size.width * source_->channels();
  auto* pixels = slot.input.mutable_data_ptr<uint8_t>();
  auto* classes = slot.classes.mutable_data_ptr<int64_t>();
  for (int64_t i = task.begin; i < task.end && !slot.dropped; ++i) {
    const int64_t position = slot.first + i;
    const int64_t sample = slot.order ? (*slot.order)[static_cast<size_t>(position)] : position;
    try {
      const ImageView image = source_->read(sample, scratch);
      apply(options_.transform, image, slot.size,
            {common_.seed, static_cast<uint64_t>(slot.epoch), static_cast<uint64_t>(sample)},
            pixels + i * bytes);
      classes[i] = source_->label(sample);
    } catch (const std::exception& error) {
      task.failed_at = i;
      task.failure = source_->name(sample) + ": " + error.what();
      return;
    }
  }
}

void ImageLoader::finish(const Task& task) {
  const std::lock_guard guard(lock_);
  Slot& slot = *task.slot;
  slot.done += task.end - task.begin;
  if (task.failed_at < slot.failed_at) {
    slot.failed_at = task.failed_at;
    slot.failure = task.failure;
  }
  if (slot.done == slot.samples) batch_there_.notify_all();
}

}  // namespace

std::unique_ptr<Loader> make_image_loader(std::shared_ptr<const Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common) {
  return std::make_unique<ImageLoader>(std::move(source), std::move(options), common);
}

}  // namespace composer
