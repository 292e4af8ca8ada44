// WebDataset's shards: tar files (ustar, pax and GNU's long names) in which the files of a sample
// follow one another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/shards/shard_files.h"

namespace composer {

/// A regular file in a tar file.
struct TarMember {
  std::string path;
  uint64_t offset = 0, bytes = 0;  ///< where its content lies in the tar file
};

/// Reads the headers of a tar file from start to end, and nothing between them.
class TarReader {
 public:
  /// Returns bytes of the file, valid until the next call.
  using Read = std::function<std::span<const uint8_t>(uint64_t begin, uint64_t bytes)>;

  /// bytes: size of the file.
  TarReader(uint64_t bytes, Read read) : bytes_(bytes), read_(std::move(read)) {}

  /// The next regular file; nullopt at the end. Throws FormatError with the reason and the offset
  /// where the file is no tar file, is cut off or damaged, or holds a sparse file.
  std::optional<TarMember> next();
  /// At the end: whether the file has an end mark.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  void read_pax(std::span<const uint8_t> records, bool global);

  const uint64_t bytes_;
  const Read read_;
  uint64_t position_ = 0;
  bool has_end_mark_ = false;
  // Values of extended headers for the next member, or for all later members (global).
  std::optional<std::string> path_, global_path_;
  std::optional<uint64_t> size_, global_size_;
};

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
