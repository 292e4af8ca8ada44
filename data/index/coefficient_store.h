// The coefficients of a set's JPEG streams (data/jpeg/kept_rows.h), kept on a disk from one epoch
// to the next so that Huffman codes are decoded once. Two files: one that only grows, a header of
// 64 bytes (magic, stamp of the source) and the rows of images one after the other; and an index
// file (data/index/index_file.h) whose entries are where an image's rows begin (8 bytes) and their
// table.
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

/// Functions may be called by several threads at once; of them only the destructor waits for
/// writing.
class CoefficientStore {
 public:
  /// file: its index is FILE.index. Both are read, and added to by all processes that name them. A
  /// file of another version of the source is begun anew. limit: bytes of the file, beyond which no
  /// image is kept.
  CoefficientStore(std::filesystem::path file, const FileStamp& source, uint64_t limit);
  /// What is kept is written before.
  ~CoefficientStore();

  /// Where the stream's rows begin and their table; null where none are kept.
  StoredIndex find(uint64_t key, const FileStamp& stamp = {});
  /// Bytes of the file. False when they cannot be read, or are not there.
  bool read(uint64_t at, std::span<uint8_t> to) const noexcept;

  /// Whether there is room for more, as far as is known.
  bool takes() const { return takes_.load(std::memory_order_relaxed); }
  /// Has an image's rows written, unless too much is waiting for the disk, or they are on their
  /// way: an image may be decoded again before they can be found. Where the file cannot be
  /// written, says so in the log and takes no more.
  void keep(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> table,
            std::span<const uint8_t> rows);

  /// At the end of an epoch: what was kept is to be found by later runs. Says in the log, once,
  /// what came of the first one.
  void save();

  const std::filesystem::path& file() const { return file_; }

 private:
  struct OpenFile;
  struct Image {
    uint64_t key;
    FileStamp stamp;
    std::vector<uint8_t> entry;  ///< but for the place
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
  std::atomic<double> looked_{0};  ///< when, in seconds

  mutable std::mutex lock_;
  std::shared_ptr<const OpenFile> open_;  ///< null where there is no file yet
  std::condition_variable changed_;
  Batch waiting_;
  std::set<uint64_t> coming_;  ///< keys of images that wait or are being written
  bool stopping_ = false, told_ = false;
  std::thread writer_;  ///< begun when there is first something to write
};

}  // namespace composer
