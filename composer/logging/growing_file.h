// A file to which whole pieces (lines, records) are appended, which survives a full disk.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace composer {

/// Pieces that cannot be written are kept in memory, up to 64 MiB, and written in order later. A
/// killed process leaves only whole pieces in the file.
class GrowingFile {
 public:
  GrowingFile() = default;
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Opens the file to append to it, or, if `fresh`, to write it anew. Waiting pieces are kept.
  /// RunError if it cannot be opened.
  void open(const std::filesystem::path& path, bool fresh);

  /// Adds a piece for the next write().
  void add(std::string_view piece);
  /// Writes all pieces; opens the file again if an earlier open() failed. RunError if not all could
  /// be written.
  void write();
  /// Calls write() a last time. RunError if pieces are missing, with their number.
  void finish();

 private:
  void close();
  void drop_written(size_t bytes);

  std::filesystem::path path_;
  int file_ = -1;
  uint64_t end_ = 0;          ///< the end of the last whole piece in the file
  std::string waiting_;       ///< the waiting pieces, one after another
  std::deque<size_t> sizes_;  ///< the sizes of the waiting pieces
  int64_t dropped_ = 0;
};

/// Calls `use` for each line that an earlier process wrote; for none if there is no file. RunError
/// if the file exists and cannot be read: it must not be taken for empty.
void for_earlier_lines(const std::filesystem::path& file,
                       const std::function<void(const std::string& line)>& use);

}  // namespace composer
