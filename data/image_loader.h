// The Loader of all image sets: worker threads that read, decode and augment single images into
// batches.
#pragma once

#include <memory>

#include "composer/loader.h"
#include "data/source.h"
#include "data/transform.h"

namespace composer {

struct ImageLoaderOptions {
  Transform transform;
  Normalization normalization;
  bool shuffle = false;
  bool drop_last = false;
  /// Images have the size that the plan says, and the next epoch's batches are prefetched at the
  /// end of each. Otherwise there is no plan, and no memory is held between epochs.
  bool training = false;
};

/// Throws UserError when the source has no samples, or none for a whole batch with drop_last.
std::unique_ptr<Loader> make_image_loader(std::shared_ptr<const Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common);

}  // namespace composer
