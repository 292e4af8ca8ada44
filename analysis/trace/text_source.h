// The text of a file, compressed by gzip or not, a piece at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

struct gzFile_s;

namespace composer {

/// Holds one piece of the text in memory: 4 MiB, or more for a longer value.
class TextSource {
 public:
  /// UserError when the file cannot be read.
  explicit TextSource(std::filesystem::path file);

  const char* begin() const { return buffer_.data(); }
  const char* end() const { return buffer_.data() + filled_; }
  /// The offset of begin() in the uncompressed text.
  int64_t offset() const { return offset_; }

  /// Drops the text before `keep`, which becomes begin(), and reads more text behind the rest.
  /// Returns false at the end of the text. UserError for a damaged file, and for a value longer
  /// than 256 MiB.
  bool refill(const char* keep);

 private:
  struct Closing {
    void operator()(gzFile_s* file) const;
  };

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Closing> file_;
  std::vector<char> buffer_;
  size_t filled_ = 0;
  int64_t offset_ = 0;
};

}  // namespace composer
