// Image files in a remote store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/remote/listing.h"
#include "data/samples/source.h"

namespace composer {

/// Reads each file whole when it is needed, and keeps it in the machine's cache. The samples are
/// the files of the listing in the order of `chosen`.
class RemoteFileSource final : public FileSource {
 public:
  struct Chosen {
    size_t file;  ///< index in the listing
    int64_t label;
  };

  /// folder: the folder of the files, in or below the listing's; keys of crop indices are paths
  /// below it. name: the name of these files in the cache; empty: that of the folder.
  RemoteFileSource(std::shared_ptr<ObjectStore> store, CacheFolder& cache, const Listing& listing,
                   const std::vector<Chosen>& chosen, const std::string& folder, int64_t channels,
                   const std::string& name = {});

  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  void forget(int64_t, bool) const override {}
  bool is_remote() const override { return !cache_->is_whole(); }
  std::shared_ptr<void> follow(Forecast forecast) const override;
  std::optional<FileStamp> remote_stamp() const override { return FileStamp{}; }

 private:
  std::vector<int64_t> versions_;  ///< versions of the files
  BlockBounds bounds_;
  std::shared_ptr<RangeCache> cache_;
};

/// The files of these paths, all of one store; the class of each is its index. Throws UserError
/// that names missing files.
std::shared_ptr<FileSource> open_remote_files(const std::vector<std::string>& paths,
                                              int64_t channels, const RemoteOptions& remote = {});

}  // namespace composer
