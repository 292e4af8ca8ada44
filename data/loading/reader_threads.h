// Threads that wait for storage, so that threads that compute need not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace composer {

/// A pool that has no threads until they are first needed, and grows while its reads come too late;
/// a thread that has had nothing to read for `idle` leaves. A process has at most kMostReaders
/// threads in all pools, except that each pool may have one.
class ReaderThreads {
 public:
  static constexpr size_t kMostReaders = 256;
  using Lock = std::unique_lock<std::mutex>;

  /// Unlocks a lock for as long as this lives.
  class Unlocked {
   public:
    explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Lock& lock_;
  };

  /// read: called with `lock` held, which it unlocks while it reads; returns false, or throws, when
  /// there is nothing to read. most: threads of this pool. lock must outlive this.
  ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read,
                std::chrono::milliseconds idle = std::chrono::seconds(5));
  /// Calls leave(), and waits for reads in progress.
  ~ReaderThreads();

  /// Reads nothing more; threads that wait for a store leave (LeaveWhen).
  void leave();

  /// A thread waits for bytes.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }
  /// Whether hurry() was called since there was last nothing to read.
  bool hurried() const { return hurried_.load(std::memory_order_relaxed); }

  // With the lock held:

  /// There is more to read, for one thread or for all threads.
  void wake_one();
  void wake_all();
  size_t count() const { return working_; }

 private:
  struct Reader {
    std::thread thread{};
    bool left = false;
  };

  void work(Reader& self);
  bool read(Lock& lock);
  void add();

  std::mutex& lock_;
  const size_t most_;
  const std::function<bool(Lock&)> read_;
  const std::chrono::milliseconds idle_time_;
  std::atomic<bool> hurried_{false};
  std::atomic<bool> stopping_{false};

  // Guarded by the lock:
  size_t working_ = 0;  ///< threads that have not left
  size_t idle_ = 0;
  double refused_until_ = 0;  ///< steady_seconds() until which no thread is added
  std::condition_variable more_;
  std::list<Reader> readers_;
};

}  // namespace composer
