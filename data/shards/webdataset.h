// WebDataset's shards: tar files in which the files of a sample follow one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/shards/shard_files.h"

namespace composer {

/// The files of a sample that are used, by their endings: what follows the first dot of the name.
struct WebDatasetFiles {
  std::string image = "auto";  ///< an ending; auto: the one of an image
  /// "cls", "txt" or another ending of a file with a number; "json" or "json.NAME": the number of
  /// the key "label" or NAME in a JSON object; auto: the first of cls, json and txt that the first
  /// sample has.
  std::string label = "auto";
  /// Values to read in place of the class: endings of files of numbers, or "json.NAME" for a number
  /// or a list of numbers in a JSON object; empty: the class.
  std::vector<std::string> targets{};
};

/// The table of the shards' samples, in order, as parts of the shards. A sample's key is the path
/// of its files up to the first dot of the name; the files of a key follow one another. Files
/// without a key, and files in "__names__", are skipped. Remote shards are read whole. Throws
/// UserError naming shards that are no valid tar files, and samples with no image or several, or
/// without their class or numbers.
std::vector<uint8_t> webdataset_table(const ShardFiles& shards, const WebDatasetFiles& files);

}  // namespace composer
