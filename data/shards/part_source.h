// Image files, or pixels, that are parts of larger files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/samples/sample_table.h"
#include "data/samples/source.h"
#include "data/shards/shard_files.h"

namespace composer {

/// The parts of files that a table lists. The files are mapped, or kept in the machine's cache.
/// Each 8 MiB of a file are a page.
class PartSource final : public TableSource {
 public:
  /// files: the files that the table was made of; the table's relative paths begin at their root,
  /// for which crop indices are kept. channels: 3, or 1 to turn every image gray. Throws UserError
  /// naming a file that cannot be opened.
  PartSource(std::shared_ptr<const SampleTable> table, const ShardFiles& files, int64_t channels);

  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  bool has_image_files() const override { return table_->coding() == SampleCoding::image_file; }
  uint64_t paged_bytes() const override { return paged_bytes_; }
  int64_t page(int64_t index) const override;
  Arrival arrival() const override { return Arrival::by_range; }
  std::optional<Extent> extent(int64_t index, bool whole_page) const override;
  void bring(const Extent& extent) const override;
  void forget(int64_t index, bool whole_page) const override;
  bool is_remote() const override;
  std::shared_ptr<void> follow(Forecast forecast) const override;
  std::filesystem::path indexed_path() const override { return root_; }
  std::optional<FileStamp> remote_stamp() const override;

 private:
  struct File {
    std::unique_ptr<const PartFile> part;
    int64_t first_page = 0;  ///< number of its first page among the pages of all files
  };

  const File& file_of(int64_t index) const;
  Extent extent_of(int64_t index) const;
  std::string path(int64_t index) const override;

  std::vector<File> files_;  ///< by container number of the table
  uint64_t paged_bytes_ = 0;
  mutable std::atomic<bool> was_remote_{false};      ///< the last result of is_remote()
  mutable std::atomic<double> was_remote_until_{0};  ///< steady_seconds() until which it is valid
};

}  // namespace composer
