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

/// Goes through the headers of a tar file from start to end, and reads nothing between them.
class TarReader {
 public:
  /// Bytes of the file, until the next call.
  using Read = std::function<std::span<const uint8_t>(uint64_t begin, uint64_t bytes)>;

  /// bytes: of the whole file.
  TarReader(uint64_t bytes, Read read) : bytes_(bytes), read_(std::move(read)) {}
  /// bytes: the whole file; must outlive this.
  explicit TarReader(std::span<const uint8_t> bytes)
      : TarReader(bytes.size(),
                  [bytes](uint64_t begin, uint64_t count) { return bytes.subspan(begin, count); }) {
  }

  /// The next regular file; nothing at the end. Throws FormatError with the reason, and where, when
  /// the file is no tar file, is cut off or damaged, or holds a sparse file.
  std::optional<TarMember> next();
  /// At the end: whether the file has the mark that writers put there.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  void read_pax(std::span<const uint8_t> records, bool global);

  const uint64_t bytes_;
  const Read read_;
  uint64_t position_ = 0;
  bool has_end_mark_ = false;
  // What extended headers say of the next member, or of all that follow.
  std::optional<std::string> path_, global_path_;
  std::optional<uint64_t> size_, global_size_;
};

}  // namespace composer
