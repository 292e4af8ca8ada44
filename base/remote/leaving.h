// Cancelling the requests of a thread.
#pragma once

#include <atomic>
#include <utility>

namespace composer {

/// While it lives, this thread's requests to stores end with RunError soon after the flag is set.
class LeaveWhen {
 public:
  /// flag: must outlive this object.
  explicit LeaveWhen(const std::atomic<bool>& flag) : before_(std::exchange(flag_, &flag)) {}
  ~LeaveWhen() { flag_ = before_; }
  LeaveWhen(const LeaveWhen&) = delete;
  LeaveWhen& operator=(const LeaveWhen&) = delete;

  /// Whether this thread's flag is set.
  static bool asked() { return flag_->load(std::memory_order_relaxed); }
  /// This thread's flag, for threads that work for it.
  static const std::atomic<bool>& flag() { return *flag_; }

 private:
  static inline const std::atomic<bool> never_{false};
  static inline thread_local const std::atomic<bool>* flag_ = &never_;

  const std::atomic<bool>* const before_;
};

}  // namespace composer
