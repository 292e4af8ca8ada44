// The Loader of all image sets.
#pragma once

#include <memory>

#include "composer/loop/loader.h"
#include "data/loading/batch_loader.h"

namespace composer {

/// The samples are chosen_rows (data/samples/order.h) of the source. Throws UserError when there
/// are none, or too few: for a whole batch with drop_last, for the ranks in a batch of training.
std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common);

}  // namespace composer
