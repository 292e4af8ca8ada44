// Images that a command line names for a trained network, prepared for it as for an evaluation.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "composer/loop/loader.h"
#include "inference/graph/trained_network.h"

namespace composer {

struct ImageRequest {
  std::string option;     ///< that names the path; UserErrors begin with it
  std::string path;       ///< what open_source() takes, or a folder with MNIST's files
  bool is_train = false;  ///< of data in two parts, the one
  OnBadSample on_bad_sample = OnBadSample::error;  ///< or skip
  /// No more samples than these, spread evenly over the set, the first of them too.
  std::optional<int64_t> most{};
};

struct PreparedImages {
  std::unique_ptr<Loader> loader;
  int64_t samples;
  bool labelled;         ///< else all labels are 0
  bool unnamed_classes;  ///< labels are numbers whose classes a .beton file or shards do not name
};

PreparedImages open_prepared(const ImageRequest& request, const TrainedNetwork& network);

}  // namespace composer
