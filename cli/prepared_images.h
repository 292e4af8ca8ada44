// Images of the command line, prepared for a trained network as in an evaluation.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "composer/loop/loader.h"
#include "inference/graph/trained_network.h"

namespace composer {

struct ImageRequest {
  std::string option;     ///< the option that named the path; UserErrors begin with it
  std::string path;       ///< a path that open_source() accepts, or a folder with MNIST's files
  bool is_train = false;  ///< whether to read the training part of a set with two parts
  OnBadSample on_bad_sample = OnBadSample::error;  ///< error or skip
  /// The largest number of samples. They, and any first part of them, are spread evenly over the
  /// set.
  std::optional<int64_t> most{};
};

struct PreparedImages {
  std::unique_ptr<Loader> loader;
  int64_t samples;
  bool labelled;         ///< false: all labels are 0
  bool unnamed_classes;  ///< true for a .beton file or shards: labels without class names
};

PreparedImages open_prepared(const ImageRequest& request, const TrainedNetwork& network);

}  // namespace composer
