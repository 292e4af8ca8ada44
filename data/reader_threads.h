// Threads that wait for storage, so that those that compute need not.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace composer {

/// There are none until they are first needed, then more and more while what they read comes too
/// late, then they sleep.
class ReaderThreads {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// read: called with `lock` held, of which it lets go while it reads; false when there is nothing
  /// to read. lock must outlive this.
  ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read);
  /// Waits for what is being read.
  ~ReaderThreads();

  /// Somebody waits for bytes.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }

  // With the lock held:

  /// There is more to read, for one thread or for all.
  void wake_one();
  void wake_all();

 private:
  void work();
  void add();

  std::mutex& lock_;
  const std::function<bool(Lock&)> read_;
  std::atomic<bool> hurried_{false};

  // Under the lock:
  size_t most_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::condition_variable more_;
  std::vector<std::thread> threads_;
};

}  // namespace composer
