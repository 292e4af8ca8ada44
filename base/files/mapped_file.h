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

/// What cannot be read any more (another program cut the file off, the disk or network failed)
/// reads as zeros: check() tells, which is to be asked once bytes have been used.
class MappedFile {
 public:
  /// Throws UserError naming the path when it is no readable file.
  explicit MappedFile(const std::filesystem::path& path);
  /// Of a file that is open: the path is for errors. The descriptor may be closed then.
  MappedFile(const std::filesystem::path& path, int file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {mapping_.data, mapping_.size}; }

  /// Whether bytes of this part of the file were met that cannot be read. Costs one atomic load
  /// while there are none in the whole file. Bytes beyond the end of a file that was cut off within
  /// their page are not noticed.
  bool lost(std::span<const uint8_t> part) const { return pages_ != nullptr && pages_->in(part); }
  /// Throws RunError with the reason, without the file's name, unless the whole part was and is
  /// there.
  void check(std::span<const uint8_t> part) const;
  /// Reads a byte of each page of the part before that, for bytes that nobody has used.
  void check_unread(std::span<const uint8_t> part) const;

  /// Returns when the part is in memory, or cannot be had. Other threads may read it meanwhile.
  void bring(std::span<const uint8_t> part) const;
  /// Asks the system to let go of the pages that the part lies in.
  void forget(std::span<const uint8_t> part) const;

  /// Returns use(), which reads the part. Whatever came of it, check(part) comes first.
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
  /// The same of the whole file, which the error names: returns read(bytes()).
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
  /// Nothing when the file has its size.
  std::optional<uint64_t> shrunk_to() const;
  void check_all() const;

  std::filesystem::path path_;
  Mapping mapping_;
  std::unique_ptr<LostPages> pages_;  ///< null for an empty file
};

}  // namespace composer
