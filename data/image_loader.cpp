#include "data/image_loader.h"

#include <ATen/record_function.h>
#include <c10/util/thread_name.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/profiling/thread_range.h"
#include "data/decoded_source.h"
#include "data/draft_filler.h"
#include "data/draft_queue.h"
#include "data/index_place.h"
#include "data/rows.h"
#include "data/tensor_pool.h"

namespace composer {
namespace {

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
  void fill_here();
  std::shared_ptr<Draft> open_draft(int64_t epoch, int64_t batch, const SizePlan& plan);
  std::unique_ptr<ReadAhead> read_ahead();
  RawBatch batch_of(Draft& draft) const;

  const std::shared_ptr<Source> source_;
  const std::unique_ptr<IndexStore> indices_;  ///< null when none are kept
  ImageLoaderOptions options_;
  const LoaderOptions common_;
  const Sampler sampler_;
  const PixelNormalizer normalizer_;
  const int64_t batches_;
  BadSampleLog bad_samples_;
  const std::unique_ptr<ReadAhead> ahead_;  ///< null: nothing is to be read ahead
  const FillPlan fill_plan_;
  TensorPool pool_;

  // Of the consumer.
  bool started_ = false;
  int64_t epoch_ = 0, batch_ = 0;
  std::unique_ptr<DraftFiller> filler_here_;

  // Of open_draft(), which the queue has called by one thread at a time.
  EpochOrder order_;
  int64_t order_epoch_ = -1;

  DraftQueue queue_;
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

/// Every rank takes part in each training batch.
void check_shares(int64_t samples, int64_t batches, const LoaderOptions& common) {
  const auto ranks = [&] { return std::to_string(common.world_size) + " ranks"; };
  if (common.batch_size < common.world_size)
    throw UserError("batches of " + std::to_string(common.batch_size) +
                    " samples are too small for " + ranks() + ": give train_batch_size at least " +
                    std::to_string(common.world_size));
  const int64_t last = samples - (batches - 1) * common.batch_size;
  if (last < common.world_size)
    throw UserError("the last batch of an epoch has only " + std::to_string(last) +
                    " samples, too few for " + ranks() +
                    ": set drop_last: true, or take another train_batch_size");
}

/// Of an epoch. Throws UserError when there are none.
int64_t batches_of(int64_t samples, const ImageLoaderOptions& options,
                   const LoaderOptions& common) {
  const int64_t size = common.batch_size;
  const bool drop_last = options.drop_last;
  if (samples == 0) throw UserError("the data set has no samples");
  if (drop_last && samples < size) {
    throw UserError("the data set has " + std::to_string(samples) +
                    " samples, fewer than one batch of " + std::to_string(size) +
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
              " is more than the " + std::to_string(batches) +
              " batches of an epoch; all of them are used");
  }
  return shared(std::clamp<int64_t>(*common.subset_num_batches, 1, batches));
}

/// An evaluation answers for each of its samples.
size_t named_bad_samples(const ImageLoaderOptions& options) {
  return options.training ? 20 : std::numeric_limits<size_t>::max();
}

size_t prefetched(const LoaderOptions& common) {
  return static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0));
}

DraftQueue::Limits queue_limits(int64_t batches, const ImageLoaderOptions& options,
                                const LoaderOptions& common, int64_t channels) {
  // Small images would cost more in taking turns than in work.
  constexpr int64_t kTaskBytes = 192 * 1024;
  const ImageSize image = options.transform.size;
  const int64_t images = kTaskBytes / (image.height * image.width * channels);
  return {.batches = batches,
          .drafts = prefetched(common) + 1,
          .task_images = std::clamp<int64_t>(images, 1, 64),
          .ahead = options.training};
}

ImageLoader::ImageLoader(std::shared_ptr<Source> source, ImageLoaderOptions options,
                         const LoaderOptions& common)
    : source_(std::move(source)),
      indices_(indices_of(*source_, common)),
      options_(std::move(options)),
      common_(common),
      sampler_(*source_, order_options(*source_, options_, common_)),
      normalizer_(options_.normalization.mean, options_.normalization.std),
      batches_(batches_of(sampler_.size(), options_, common_)),
      bad_samples_(common_.on_bad_sample, named_bad_samples(options_)),
      ahead_(read_ahead()),
      fill_plan_{.source = *source_,
                 .ahead = ahead_.get(),
                 .indices = indices_.get(),
                 .options = options_,
                 .common = common_,
                 .epoch_samples = sampler_.size(),
                 .normalizer = normalizer_,
                 .bad_samples = bad_samples_},
      pool_(prefetched(common_) + 3, common_.pin_memory),
      queue_(queue_limits(batches_, options_, common_, source_->channels())) {}

ImageLoader::~ImageLoader() {
  queue_.stop();
  for (auto& worker : workers_) worker.join();
  if (indices_) indices_->save();
}

std::unique_ptr<ReadAhead> ImageLoader::read_ahead() {
  if (common_.num_workers == 0) return nullptr;
  const bool windows = options_.order == OrderKind::quasi_random;
  return make_read_ahead({.source = *source_,
                          .limits = options_.read_ahead,
                          .window_pages = windows ? options_.window_pages : 0,
                          .cold = common_.cold},
                         sampler_, common_, batches_, options_.training);
}

void ImageLoader::start(int64_t epoch, int64_t batch, SizePlan plan) {
  if (epoch < 0 || batch < 0 || batch > batches_) {
    throw RunError("cannot go on from batch " + std::to_string(batch) + " of epoch " +
                   std::to_string(epoch) + ": an epoch has " + std::to_string(batches_) +
                   " batches");
  }
  if (!options_.training) plan = {};
  int64_t sequence = ahead_ ? ahead_->restart(epoch, batch) : 0;
  queue_.restart(
      epoch, batch,
      [this, sequence, plan = std::move(plan)](int64_t of_epoch, int64_t number) mutable {
        auto draft = open_draft(of_epoch, number, plan);
        draft->sequence = sequence;
        sequence += draft->samples;
        return draft;
      });
  epoch_ = epoch, batch_ = batch, started_ = true;
  while (static_cast<int64_t>(workers_.size()) < common_.num_workers) {
    workers_.emplace_back([this, number = workers_.size()] {
      c10::setThreadName((options_.training ? "loader " : "eval loader ") + std::to_string(number));
      work();
    });
  }
}

std::optional<RawBatch> ImageLoader::next() {
  if (!started_) start(0, 0, {});
  if (batch_ == batches_) {
    ++epoch_, batch_ = 0;
    if (!options_.training) {
      pool_.clear();
      if (ahead_) ahead_->rest();
      if (common_.world_size == 1) bad_samples_.sum_up(samples_per_epoch());
    }
    return std::nullopt;
  }
  queue_.ask(epoch_);
  if (ahead_) ahead_->ask(epoch_);
  if (common_.num_workers == 0) fill_here();
  const auto draft = queue_.next();
  if (++batch_ == batches_ && indices_) indices_->save();
  return batch_of(*draft);
}

RawBatch ImageLoader::batch_of(Draft& draft) const {
  RECORD_USER_SCOPE("collate");
  RawBatch batch;
  batch.images = std::move(draft.input);
  batch.target.classes = std::move(draft.classes);
  if (draft.bad.empty()) return batch;
  std::vector<int64_t> good;
  for (int64_t i = 0; i < draft.samples; ++i) {
    if (!draft.bad.contains(i)) good.push_back(i);
  }
  if (good.empty() && options_.training && common_.world_size == 1) {
    throw RunError("not one sample of batch " + std::to_string(draft.first / common_.batch_size) +
                   " of epoch " + std::to_string(draft.epoch) + " can be read");
  }
  const auto places = at::tensor(good, at::kLong);
  batch.images = batch.images.index_select(0, places);
  batch.target.classes = batch.target.classes.index_select(0, places);
  return batch;
}

void ImageLoader::work() {
  DraftFiller filler(fill_plan_);
  Task task;
  const auto sleep = [this] {
    const ThreadRange range("wait", /*lasting=*/true);
    return queue_.wait();
  };
  do {
    while (queue_.take(task)) {
      filler.fill(task);
      queue_.finish(task);
    }
  } while (sleep());
}

/// What the threads would do for the next batch.
void ImageLoader::fill_here() {
  if (!filler_here_) filler_here_ = std::make_unique<DraftFiller>(fill_plan_);
  Task task;
  while (!queue_.ready() && queue_.take(task)) {
    filler_here_->fill(task);
    queue_.finish(task);
  }
}

std::shared_ptr<Draft> ImageLoader::open_draft(int64_t epoch, int64_t batch, const SizePlan& plan) {
  auto draft = std::make_shared<Draft>();
  draft->epoch = epoch;
  const BatchShare share = share_of(batch, sampler_.size(), common_);
  draft->first = share.first;
  draft->samples = share.samples;
  draft->size = plan ? plan(epoch * batches_ + batch) : options_.transform.size;
  if (order_epoch_ != epoch) {
    order_ = sampler_.epoch(epoch);
    order_epoch_ = epoch;
  }
  draft->order = order_;
  draft->input =
      pool_.reused({draft->samples, draft->size.height, draft->size.width, source_->channels()},
                   options_.output);
  draft->classes = pool_.fresh({draft->samples}, at::kLong);
  return draft;
}

}  // namespace

std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common) {
  if (common.decoded) {
    auto decoded = std::make_shared<DecodedSource>(std::move(source), common.decoded->most);
    common.decoded->kept = decoded->decoded();
    source = std::move(decoded);
  }
  return std::make_unique<ImageLoader>(std::move(source), std::move(options), common);
}

}  // namespace composer
