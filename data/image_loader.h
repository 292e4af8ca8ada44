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
  bool follow_plan = false;  ///< give images the size that the plan says; otherwise it is ignored
};

/// Throws UserError when the source has no samples, or none for a whole batch with drop_last.
std::unique_ptr<Loader> make_image_loader(std::shared_ptr<const Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common);

}  // namespace composer
