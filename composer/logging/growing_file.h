// A file that gets whole pieces (lines, records) at its end, and outlives a full disk.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace composer {

/// What cannot be written is kept, up to 64 MiB, and written in order once it can be. A process
/// that is killed leaves whole pieces.
class GrowingFile {
 public:
  GrowingFile() = default;
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Goes on behind what is there, or, where `fresh`, begins anew. Pieces that wait stay. RunError
  /// when it cannot be opened.
  void open(const std::filesystem::path& path, bool fresh);

  /// A piece for the next write().
  void add(std::string_view piece);
  /// Opens the file again where that failed. RunError when not all could be written.
  void write();
  /// RunError where pieces are missing after a last write(), saying how many.
  void finish();

 private:
  void close();
  void drop_written(size_t bytes);

  std::filesystem::path path_;
  int file_ = -1;
  uint64_t end_ = 0;          ///< of the last whole piece in the file
  std::string waiting_;       ///< pieces, one behind another
  std::deque<size_t> sizes_;  ///< of these
  int64_t dropped_ = 0;
};

/// Hands each line to `use`; none where there is no such file. RunError where there is one that
/// cannot be read: it is not to be taken for empty.
void for_earlier_lines(const std::filesystem::path& file,
                       const std::function<void(const std::string& line)>& use);

}  // namespace composer
