// Locks among the processes of a machine: on a file, on parts of a file, and on the room of a disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace composer {

/// A lock on a file. It has one holder at a time among all processes, and threads, that name the
/// same file. The file stays; the lock ends with its process.
class LockFile {
 public:
  /// Makes the file if it is missing, and waits up to `patience` seconds for another holder. A link
  /// is not followed.
  LockFile(const std::filesystem::path& path, double patience);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// 0 while the lock is held, else the errno of the failure; EWOULDBLOCK when another holder did
  /// not release the lock in time.
  int error() const { return error_; }
  /// The failure, for people; empty while the lock is held.
  std::string problem() const;

 private:
  const int file_;
  int error_ = 0;
};

/// Locks on parts of a file: numbers that stand for something, such as the blocks of another file.
/// The holder is an open file description. Its locks exclude all other holders of the machine, in
/// this process and in others, and end with its process. Locks of one holder never exclude each
/// other.
class RangeLock {
 public:
  enum class Kind { shared, exclusive };
  struct Range {
    uint64_t begin = 0, end = 0;
  };

  /// The file must exist and be no link. Throws RunError.
  explicit RangeLock(const std::filesystem::path& file);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  /// Locks the whole range or nothing, without waiting. Throws RunError if the file system has
  /// no locks.
  bool try_lock(Kind kind, const Range& range);
  void unlock(const Range& range);
  /// A range of another holder that excludes an exclusive lock on `range`.
  std::optional<Range> in_the_way(const Range& range) const;

 private:
  int file_;
};

/// The bytes that the processes of a machine are about to add to a folder: a number for each
/// process, in a file that all of them have mapped. The number of a process that has ended does not
/// count. Functions may be called by several threads at once.
class Reservation {
 public:
  /// Makes the file if it is missing. Throws RunError.
  explicit Reservation(const std::filesystem::path& file);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  void add(uint64_t bytes) { own() += bytes; }
  void subtract(uint64_t bytes) { own() -= bytes; }

  struct Others {
    uint64_t processes = 0, bytes = 0;
  };
  Others others() const;

 private:
  using Number = std::atomic<uint64_t>;
  static constexpr uint64_t kProcesses = 256;

  Number& own() { return slot_ ? numbers_[*slot_] : without_slot_; }

  RangeLock locks_;  ///< locks each number for its process
  Number* numbers_ = nullptr;
  std::optional<uint64_t> slot_;  ///< empty when all slots are taken; others do not see it then
  Number without_slot_{0};
};

}  // namespace composer
