// Writes a set of images as a .beton file with several threads, whose number does not change the
// file's bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loading/loader_options.h"
#include "data/beton/pack_image.h"
#include "data/samples/source.h"

namespace composer {

struct WriteOptions {
  PackOptions pack;
  /// replace: its row gets image and label of the nearest good sample before it (for the first
  /// ones: after them). skip: the file has no row for it. error: nothing is written.
  OnBadSample on_bad_sample = OnBadSample::error;
  uint64_t page_size = 0;     ///< bytes; 0: 8 MiB, and larger once an image needs it
  int num_workers = 0;        ///< threads that read and encode; 0: one a processor
  std::vector<int64_t> rows;  ///< samples to write, in this order; empty: all

  /// Called on the caller's thread. An exception ends the writing; no file is left.
  std::function<void(int64_t done, int64_t total)> progress;
  /// Gets the crop index (make_jpeg_index) of each row with a JPEG stream, in ascending order;
  /// empty for a stream without one, or without pack.index. Called on the caller's thread.
  std::function<void(int64_t row, const std::vector<uint8_t>& index)> index;
};

struct WriteReport {
  int64_t rows = 0;
  uint64_t bytes = 0;  ///< the file's length
  // Rows by the way their images were stored; replaced rows count in `bad` only.
  int64_t passed = 0, transcoded = 0, rotated = 0, encoded = 0, raw = 0;
  int64_t resized = 0;  ///< rows among `encoded` and `raw` that were shrunk
  std::vector<std::pair<std::string, std::string>> bad;  ///< name and reason
};

/// An existing file is replaced at the end. Throws RunError naming the sample that cannot be read
/// (OnBadSample::error), or when none can; UserError for options out of range and an output that
/// cannot be written.
WriteReport write_beton(const Source& source, const std::filesystem::path& path,
                        const WriteOptions& options);

/// The same, and the crop indices of the rows in the side file index_file_of(path), if side_file is
/// true and there are JPEG streams; else an older side file is removed. options.index: not set.
WriteReport write_with_side_file(const Source& source, const std::filesystem::path& path,
                                 WriteOptions options, bool side_file);

/// WriteOptions::rows for the first `subset` of these rows, or for all of them. rows: rows of a set
/// of `samples` samples; empty: all. shuffle: the seed of a random order; without it the rows keep
/// their order.
std::vector<int64_t> rows_to_write(std::vector<int64_t> rows, int64_t samples,
                                   std::optional<int64_t> subset, std::optional<uint64_t> shuffle);

}  // namespace composer
