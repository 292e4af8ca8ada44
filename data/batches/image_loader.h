// The Loader of all image sets: worker threads that read, decode and augment single images into
// batches.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>

#include "composer/loop/loader.h"
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
  at::ScalarType output = at::kByte;  ///< of the images, or float or bfloat16: normalised already,
                                      ///< for a loop of one's own
  int64_t window_pages = 64;          ///< of the quasi-random order
  ReadAheadLimits read_ahead{};
};

/// The samples are chosen_rows (data/samples/rows.h) of the source. Throws UserError when there are
/// none, or too few: for a whole batch with drop_last, for the ranks in a batch of training.
std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common);

}  // namespace composer
