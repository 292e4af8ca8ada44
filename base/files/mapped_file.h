// A file's bytes, mapped into memory for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace composer {

/// Watches one mapping. A page that cannot be read, because another program cut the file off or the
/// disk or network failed, raises SIGBUS, which would end the process. While this object lives,
/// such a page reads as zeros and is noted here. Other faults go to the handler that was installed
/// before the first LostPages; without one they end the process. Functions may be called by several
/// threads at once.
class LostPages {
 public:
  /// mapping: private, read-only, from the beginning of the open `file`. Both must outlast this.
  LostPages(std::span<const uint8_t> mapping, int file);
  ~LostPages();
  LostPages(const LostPages&) = delete;
  LostPages& operator=(const LostPages&) = delete;

  /// Whether a page that holds bytes of this part has been lost. Ask after the bytes were read.
  bool in(std::span<const uint8_t> part) const;

 private:
  struct Range;
  struct Ranges;

  Range* const range_;
};

/// Bytes that can no longer be read (another program cut the file off, the disk or network failed)
/// read as zeros. Call check() after using bytes.
class MappedFile {
 public:
  /// UserError names the path when it is no readable file.
  explicit MappedFile(const std::filesystem::path& path);
  /// Maps an open file. path: for errors. The descriptor may be closed afterwards.
  MappedFile(const std::filesystem::path& path, int file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {mapping_.data, mapping_.size}; }

  /// Whether an access to this part of the file met bytes that cannot be read. Costs one atomic
  /// load while the whole file has none. Bytes beyond the end of a file that was cut off within
  /// their page are not noticed.
  bool lost(std::span<const uint8_t> part) const { return pages_ != nullptr && pages_->in(part); }
  /// Throws RunError with the reason, without the file's name, unless the whole part was and is
  /// readable.
  void check(std::span<const uint8_t> part) const;
  /// check() for bytes that nobody has read: reads a byte of each page first.
  void check_unread(std::span<const uint8_t> part) const;

  /// Returns when the part is in memory, or cannot be read. Other threads may read it meanwhile.
  void bring(std::span<const uint8_t> part) const;
  /// Asks the system to drop the pages of the part from memory.
  void forget(std::span<const uint8_t> part) const;

  /// Returns use(), which reads the part. An error of check(part) takes precedence over one of
  /// use().
  template <class Use>
  auto use(std::span<const uint8_t> part, Use&& use) const {
    try {
      auto result = use();
      check(part);
      return result;
    } catch (...) {
      check(part);
      throw;
    }
  }
  /// use() for the whole file, which the error names: returns read(bytes()).
  template <class Read>
  auto use_all(Read&& read) const {
    try {
      auto result = read(bytes());
      check_all();
      return result;
    } catch (...) {
      check_all();
      throw;
    }
  }

 private:
  struct Mapping {
    int file = -1;
    const uint8_t* data = nullptr;
    size_t size = 0;

    Mapping() = default;
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
  };

  void map();
  bool may_end_before(const uint8_t* byte) const;
  /// The file's present size when it is shorter than the mapping; else nothing.
  std::optional<uint64_t> shrunk_to() const;
  void check_all() const;

  std::filesystem::path path_;
  Mapping mapping_;
  std::unique_ptr<LostPages> pages_;  ///< null for an empty file
};

}  // namespace composer
