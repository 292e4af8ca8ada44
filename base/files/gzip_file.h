// Compressed files that are whole or missing.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/files/atomic_file.h"

namespace composer {

/// Writes a gzip file as an AtomicFile. RunError when it cannot be written.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  /// Appends text.
  void write(std::string_view text) { put(text, Z_NO_FLUSH); }
  /// Renames the file to its path. Nothing may be written afterwards.
  void commit();

 private:
  void put(std::string_view text, int flush);

  AtomicFile file_;
  z_stream stream_{};
  std::array<uint8_t, 64 << 10> out_;
};

}  // namespace composer
