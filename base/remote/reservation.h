// What the processes of a machine are about to add to a folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/remote/range_lock.h"

namespace composer {

/// A number of bytes for each process, in a file that all of them have mapped; those of processes
/// that have ended do not count. Any thread may call any of these.
class Reservation {
 public:
  /// Makes the file where there is none. Throws RunError.
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

  RangeLock locks_;  ///< of each number, by its process
  Number* numbers_ = nullptr;
  std::optional<uint64_t> slot_;  ///< nothing where all are taken: then the others do not see it
  Number without_slot_{0};
};

}  // namespace composer
