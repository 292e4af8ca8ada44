// The loader of all image sets: worker threads read, decode and augment single images into batches
// of plain memory.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/loading/image_size.h"
#include "base/loading/loader_options.h"
#include "base/loading/normalization.h"
#include "base/loading/sample_transform.h"
#include "data/loading/batch_arrays.h"
#include "data/loading/read_ahead.h"
#include "data/samples/order.h"
#include "data/samples/source.h"
#include "data/samples/transform.h"

namespace composer {

/// A sample that cannot be read, as opposed to a failure of the program.
class BadSample : public RunError {
 public:
  /// advice: for what() alone.
  BadSample(int64_t index, const std::string& name, const std::string& reason,
            const std::string& advice = {})
      : RunError(name + ": " + reason + advice), index_(index), name_(name), reason_(reason) {}

  int64_t index() const { return index_; }           ///< the sample's number in the source
  const std::string& name() const { return name_; }  ///< Source::name()
  const std::string& reason() const { return reason_; }

 private:
  int64_t index_;
  std::string name_, reason_;
};

struct ImageLoaderOptions {
  Transform transform;
  std::vector<SampleTransform> augmentations{};  ///< applied to each image, after the transform
  Normalization normalization;
  OrderKind order = OrderKind::sequential;
  std::string rows{};  ///< the samples that take part, "0-99,200"; empty = all
  bool drop_last = false;
  int64_t views = 1;  ///< images made of each sample, in consecutive rows of the batch
  /// Image sizes follow the plan, the loader prefetches across epochs, and no rank's share of a
  /// batch may be empty. Otherwise the loader ignores the plan and frees its memory after each
  /// epoch.
  bool training = false;
  /// Element type of the images. Of other types than uint8 they are normalised, for a user's own
  /// training loop.
  ElementType output = ElementType::uint8;
  /// Where not empty: the images' numbers of each byte and channel, [256][C], in place of the
  /// normalization.
  std::vector<float> table{};
  int64_t window_pages = 64;                   ///< pages in a window of the quasi-random order
  std::shared_ptr<const GivenOrders> given{};  ///< with OrderKind::given
  ReadAheadLimits read_ahead{};
};

/// An endless sequence of epochs of batches. Batch (epoch, batch) is a pure function of the seed:
/// threads, prefetching and the batch that the loader was started at do not matter. Each rank gets
/// a slice of the batch, in the order of the ranks.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;

  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;
  /// The samples that take part, those of an incomplete last batch included.
  virtual int64_t num_samples() const = 0;
  virtual ImageSize image_size() const = 0;
  virtual const Normalization& normalization() const = 0;
  virtual std::string sample_name(int64_t index) const = 0;
  virtual std::string digest() const = 0;

  /// Goes on from batch `batch` of epoch `epoch`, without reading the batches before. Drops
  /// prefetched batches.
  virtual void start(int64_t epoch, int64_t batch, SizePlan plan) = 0;
  /// Applies the transform to each image, after the transforms added before. Called before start().
  virtual void add_transform(SampleTransform transform) = 0;
  /// The next batch, or the rank's slice of it, which may be empty; nullopt once at the end of each
  /// epoch, after which a call begins the next epoch. Throws what a worker thread threw.
  virtual std::optional<BatchArrays> next() = 0;
  /// Waits until next() would not wait, but no longer than this. Returns whether that is so; true
  /// where there are no workers.
  virtual bool ready_within(std::chrono::milliseconds time) = 0;
};

/// The samples are chosen_rows (data/samples/order.h) of the source. Throws UserError when there
/// are none, or too few: for a whole batch with drop_last, for the ranks in a batch of training.
/// common.pin_memory is ignored: the allocator decides.
std::unique_ptr<BatchLoader> make_batch_loader(std::shared_ptr<Source> source,
                                               ImageLoaderOptions options,
                                               const LoaderOptions& common,
                                               std::unique_ptr<ArrayAllocator> allocator);

}  // namespace composer
