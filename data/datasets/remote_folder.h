// Class folders of images in a remote store, as data/datasets/image_folder.h has local ones.
#pragma once

#include "base/remote/listing.h"
#include "data/datasets/image_folder.h"

namespace composer {

/// Names of the classes, in order; may be empty.
std::vector<std::string> remote_classes(const Listing& listing);

/// The folder of the classes: that of the parameters' part, or of the listing.
std::string remote_part_folder(const Listing& listing, const FolderParams& params);

/// Follows the rules of open_class_folders(), and throws the same errors.
std::shared_ptr<Source> open_remote_classes(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                            const Listing& listing, const FolderParams& params,
                                            OnBadSample on_bad_sample,
                                            const std::vector<std::string>& class_names = {});

/// All files with an image's ending, with class 0. Throws UserError if there are none.
std::shared_ptr<Source> open_remote_images(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                           const Listing& listing);

}  // namespace composer
