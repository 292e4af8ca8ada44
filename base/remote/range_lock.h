// Locks on parts of a file: numbers that stand for something, such as the blocks of another file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace composer {

/// One holder (an open file description): its locks are against all others of the machine, in this
/// process and in others, and do not outlive its process. Locks of one holder never exclude each
/// other.
class RangeLock {
 public:
  enum class Kind { shared, exclusive };
  struct Range {
    uint64_t begin = 0, end = 0;
  };

  /// The file, and no link to it, must be there. Throws RunError.
  explicit RangeLock(const std::filesystem::path& file);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  /// The whole range or nothing, at once. Throws RunError where the file system has no locks.
  bool try_lock(Kind kind, const Range& range);
  void unlock(const Range& range);
  /// A range of another holder that would keep an exclusive lock from this one.
  std::optional<Range> in_the_way(const Range& range) const;

 private:
  int file_;
};

}  // namespace composer
