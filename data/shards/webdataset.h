// WebDataset's shards: tar files in which the files of a sample follow one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/shards/shard_files.h"

namespace composer {

/// Which of a sample's files are used, by what follows the first dot of their names.
struct WebDatasetFiles {
  std::string image = "auto";  ///< one ending; auto: the one that is an image's
  /// "cls", "txt" or another ending of a file that holds a number; "json" or "json.NAME", the
  /// number of that name ("label") in a JSON object; auto: of cls, json and txt the first that the
  /// first sample has.
  std::string label = "auto";
  /// Files of numbers (their endings), or "json.NAME" a number or a list of them in a JSON object,
  /// that are read in place of the class; none: the class.
  std::vector<std::string> targets{};
};

/// The samples of the shards, in order, as parts of them. A sample's key is its files' path up to
/// the first dot of their names; files of a key follow one another. Files without a key, and those
/// in "__names__", are passed over. Remote shards are read whole. Throws UserError naming shards
/// that are no sound tar files, and samples without an image, or its class or numbers, or with
/// several images.
std::vector<uint8_t> webdataset_table(const ShardFiles& shards, const WebDatasetFiles& files);

}  // namespace composer
