// The loader of all image sets, whose batches are plain memory: worker threads read, decode and
// augment single images into batches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

struct ImageLoaderOptions {
  Transform transform;
  std::vector<SampleTransform> augmentations{};  ///< of each image, after the transform
  Normalization normalization;
  OrderKind order = OrderKind::sequential;
  std::string rows{};  ///< the samples that take part, "0-99,200"; empty = all
  bool drop_last = false;
  int64_t views = 1;  ///< images that are made of each sample, one after the other in its batch
  /// Images have the size that the plan says, the next epoch's batches are prefetched at the end of
  /// each, and no rank's share of a batch may be empty. Otherwise there is no plan, and no memory
  /// is held between epochs.
  bool training = false;
  /// Of the images; float32 and bfloat16: normalised already, for a loop of one's own.
  ElementType output = ElementType::uint8;
  int64_t window_pages = 64;  ///< of the quasi-random order
  ReadAheadLimits read_ahead{};
};

/// An endless sequence of epochs of batches. Batch (epoch, batch) is a pure function of the seed:
/// threads, prefetching and where the loader was started do not matter.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;

  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;
  virtual ImageSize image_size() const = 0;
  virtual const Normalization& normalization() const = 0;
  virtual std::string sample_name(int64_t index) const = 0;
  virtual std::string digest() const = 0;

  /// Goes on from batch `batch` of epoch `epoch`, at once. Drops what was prefetched.
  virtual void start(int64_t epoch, int64_t batch, SizePlan plan) = 0;
  /// Changes each image after what changed it before. Called before start().
  virtual void add_transform(SampleTransform transform) = 0;
  /// The next batch, or the rank's slice of it, which may be empty. Nothing once at the end of each
  /// epoch; the call after that begins the next epoch. Throws what a worker thread threw.
  virtual std::optional<BatchArrays> next() = 0;
};

/// The samples are chosen_rows (data/samples/rows.h) of the source. Throws UserError when there are
/// none, or too few: for a whole batch with drop_last, for the ranks in a batch of training.
/// common.pin_memory is the allocator's affair.
std::unique_ptr<BatchLoader> make_batch_loader(std::shared_ptr<Source> source,
                                               ImageLoaderOptions options,
                                               const LoaderOptions& common,
                                               std::unique_ptr<ArrayAllocator> allocator);

}  // namespace composer
