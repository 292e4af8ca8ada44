// How long a store's recent reads took, and so which one takes too long.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace composer {

/// Any thread may call any of these.
class ReadTimes {
 public:
  static constexpr uint64_t kMostBytes = 16 << 20;  ///< larger reads are not sent a second time

  /// After so many seconds a read of that size is to be sent a second time, where an allowance is
  /// to be had then: much later than 95 of 100 like it were whole. Nothing while too few are known.
  std::optional<double> limit(uint64_t bytes);
  /// Whether a read may be sent a second time now, which then counts as done: one in twenty may.
  bool take_allowance();
  void add(uint64_t bytes, double seconds);

 private:
  struct Recent {
    std::vector<double> seconds;  ///< a ring
    size_t next = 0;
  };
  Recent& like(uint64_t bytes);

  std::mutex mutex_;
  std::array<Recent, 3> recent_;
  double allowance_ = 1;  ///< second requests that may be sent
};

}  // namespace composer
