// Image files, or pixels, that lie in larger files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/samples/sample_table.h"
#include "data/samples/source.h"
#include "data/shards/part_file.h"
#include "data/shards/shard_files.h"

namespace composer {

/// The parts of a table. Their files are mapped, or kept in the machine's cache; what lies within
/// 8 MiB of a file is a page.
class PartSource final : public Source {
 public:
  /// files: those that the table was made of; its relative paths begin at their root, for which
  /// crop indices are kept. channels: 3, or 1 to turn every image gray. Throws UserError naming a
  /// file that cannot be opened.
  PartSource(std::shared_ptr<const SampleTable> table, const ShardFiles& files, int64_t channels);

  int64_t size() const override { return table_->size(); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return table_->label(index); }
  int64_t num_values() const override { return table_->num_values(); }
  std::vector<std::string> value_names() const override { return table_->value_names(); }
  void read_values(int64_t index, std::span<float> values) const override {
    table_->read_values(index, values);
  }
  std::string name(int64_t index) const override;
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
    int64_t first_page = 0;  ///< among those of all files
  };

  std::string whole(const std::string& name) const;
  const File& file_of(int64_t index) const;
  Extent place_of(int64_t index) const;

  const std::shared_ptr<const SampleTable> table_;
  const std::string root_;
  const int64_t channels_;
  std::vector<File> files_;  ///< by the table's number of the container
  uint64_t paged_bytes_ = 0;
  mutable std::atomic<bool> was_remote_{false};      ///< is_remote()'s last answer
  mutable std::atomic<double> was_remote_until_{0};  ///< which counts so long, in seconds
};

}  // namespace composer
