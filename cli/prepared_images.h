// Images that a command line names for a trained network, prepared for it as for an evaluation.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "composer/loader.h"
#include "inference/trained_network.h"

namespace composer {

struct PreparedImages {
  std::unique_ptr<Loader> loader;
  int64_t samples;
  bool labelled;  ///< else all labels are 0
};

/// path: what open_source() takes, or a folder with MNIST's files. is_train: of data in two parts,
/// the one. most: no more samples than these, spread evenly over the set, the first of them too.
/// UserErrors begin with `option`, the one that names the path.
PreparedImages open_prepared(const std::string& option, const std::string& path, bool is_train,
                             const TrainedNetwork& network, std::optional<int64_t> most = {});

}  // namespace composer
