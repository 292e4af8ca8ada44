// The members of a tar file: ustar, pax and GNU's long names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace composer {

/// A regular file in a tar file.
struct TarMember {
  std::string path;
  uint64_t offset = 0, bytes = 0;  ///< of its content, in the tar file
};

/// Reads the headers of a tar file from start to end, and nothing between them.
class TarReader {
 public:
  /// Returns bytes of the file, valid until the next call.
  using Read = std::function<std::span<const uint8_t>(uint64_t begin, uint64_t bytes)>;

  /// bytes: size of the file.
  TarReader(uint64_t bytes, Read read) : bytes_(bytes), read_(std::move(read)) {}

  /// The next regular file; nullopt at the end. Throws FormatError with the reason and the offset
  /// where the file is no tar file, is cut off or damaged, or holds a sparse file.
  std::optional<TarMember> next();
  /// At the end: whether the file has an end mark.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  void read_pax(std::span<const uint8_t> records, bool global);

  const uint64_t bytes_;
  const Read read_;
  uint64_t position_ = 0;
  bool has_end_mark_ = false;
  // Values of extended headers for the next member, or for all later members (global).
  std::optional<std::string> path_, global_path_;
  std::optional<uint64_t> size_, global_size_;
};

}  // namespace composer
