// What the sets of images share: parameters, and the way to a loader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "composer/loader.h"
#include "composer/recipe/params.h"
#include "data/image_loader.h"

namespace composer {

struct DatasetParams {
  bool is_train = true;
  bool drop_last = true;
  bool shuffle = true;
  std::string datadir;

  void fields(auto&& f) {
    f("is_train", is_train,
      "the training part with its augmentation; false: the part for evaluation");
    f("drop_last", drop_last, "leave out an incomplete batch at the end of an epoch");
    f("shuffle", shuffle, "a new order each epoch");
    f("datadir", datadir, "folder with the data");
  }
};

/// The keys about FFCV's files that recipes have.
struct FfcvParams {
  bool use_ffcv = false;
  std::string ffcv_dir = "/tmp";
  std::string ffcv_dest;
  bool ffcv_write_dataset = false;

  void fields(auto&& f) {
    f("use_ffcv", use_ffcv,
      "read ffcv_dir/ffcv_dest, a .beton file, in place of the original files");
    f("ffcv_dir", ffcv_dir, "folder of the .beton file");
    f("ffcv_dest", ffcv_dest, "name of the .beton file");
    f("ffcv_write_dataset", ffcv_write_dataset, "with use_ffcv: write the .beton file first");
  }
  /// Throws UserError where use_ffcv asks for what cannot be done.
  void refuse() const;
};

/// Mean and standard deviation of ImageNet's colours.
Normalization imagenet_normalization();

/// A loader as the parameters want it; training images follow a size plan.
std::unique_ptr<Loader> open_loader(std::shared_ptr<const Source> source,
                                    const Transform& transform, Normalization normalization,
                                    const DatasetParams& params, const LoaderOptions& options);

/// Image files in the given order. transform: for evaluation.
std::unique_ptr<Loader> open_file_loader(const std::vector<std::string>& files, int64_t channels,
                                         const Transform& transform, Normalization normalization,
                                         const LoaderOptions& options);

/// Evaluation of a set whose images all have `size`: files of another size are resized and cropped.
Transform fitted(ImageSize size);

/// datadir, which must be an existing folder. expected: what it should hold, for messages. Throws
/// UserError.
std::string checked_datadir(const std::string& datadir, const std::string& expected);

}  // namespace composer
