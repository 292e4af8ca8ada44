// A cache on a disk for the coefficients of a set's JPEG streams (data/jpeg/kept_rows.h): Huffman
// codes are decoded in the first epoch only. It has two files. The data file only grows: a header
// of 64 bytes (magic, stamp of the source), then the rows of one image after the other. The index
// file (data/index/index_file.h) has an entry for each image: the offset of its rows (8 bytes) and
// their table.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/index/index_store.h"

namespace composer {

/// Functions may be called by several threads at once; only the destructor waits for writing.
class CoefficientStore {
 public:
  /// file: the data file; FILE.index is the index. All processes that name these files read them
  /// and append to them. A file of another version of the source is overwritten. limit: the data
  /// file's largest length in bytes.
  CoefficientStore(std::filesystem::path file, const FileStamp& source, uint64_t limit);
  /// Writes what keep() was given first.
  ~CoefficientStore();

  /// The stream's cache entry: offset and table of its rows. Null without one.
  StoredIndex find(uint64_t key, const FileStamp& stamp = {});
  /// Reads bytes of the data file. False when they cannot be read or do not exist.
  bool read(uint64_t at, std::span<uint8_t> to) const noexcept;

  /// Whether the data file has room for more, as far as this process knows.
  bool takes() const { return takes_.load(std::memory_order_relaxed); }
  /// Writes an image's rows in the background, unless too much is waiting for the disk, or the
  /// image is waiting already (it may be decoded again before its entry can be found). When the
  /// file cannot be written, the log says so and nothing more is kept.
  void keep(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> table,
            std::span<const uint8_t> rows);

  /// Called at the end of an epoch: later runs find the kept rows. The log says once what the first
  /// epoch kept.
  void save();

  const std::filesystem::path& file() const { return file_; }

 private:
  struct OpenFile;
  struct Image {
    uint64_t key;
    FileStamp stamp;
    std::vector<uint8_t> entry;  ///< the entry without the offset
    size_t begin;
  };
  struct Batch {
    std::vector<uint8_t> bytes;
    std::vector<Image> images;
  };

  bool is_of_source(int file) const;
  void look_again();
  void write_in_background();
  std::string add_to_file(Batch& batch);
  void tell_of_first_epoch();

  const std::filesystem::path file_;
  const FileStamp source_;
  const uint64_t limit_;
  IndexStore index_;
  std::atomic<bool> takes_{true};
  std::atomic<int64_t> found_{0}, kept_{0}, left_out_{0};
  std::atomic<double> looked_{0};  ///< time of the last look at the files, in seconds

  mutable std::mutex lock_;
  std::shared_ptr<const OpenFile> open_;  ///< null without a file
  std::condition_variable changed_;
  Batch waiting_;
  std::set<uint64_t> coming_;  ///< keys of images that wait, or are being written
  bool stopping_ = false, told_ = false;
  std::thread writer_;  ///< started by the first keep()
};

}  // namespace composer
