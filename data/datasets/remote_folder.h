// Class folders of images that a store has, as data/datasets/image_folder.h has local ones.
#pragma once

#include "base/remote/listing.h"
#include "data/datasets/image_folder.h"

namespace composer {

/// Names of the classes, in order; empty where there are none.
std::vector<std::string> remote_classes(const Listing& listing);

/// The folder of the classes: the part that the parameters mean, or the listing's own.
std::string remote_part_folder(const Listing& listing, const FolderParams& params);

/// The same rules and errors as open_class_folders'.
std::shared_ptr<Source> open_remote_classes(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                            const Listing& listing, const FolderParams& params,
                                            OnBadSample on_bad_sample,
                                            const std::vector<std::string>& class_names = {});

/// All files with an image's name, with class 0. Throws UserError where there are none.
std::shared_ptr<Source> open_remote_images(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                           const Listing& listing);

/// Whether the listing has train/ or val/ (the part).
bool has_part(const Listing& listing, const std::string& part);

}  // namespace composer
