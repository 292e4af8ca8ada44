// Threads that wait for storage, so that those that compute need not.
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

/// There are none until they are first needed, then more and more while what they read comes too
/// late; one that has had nothing to read for `idle` leaves. All of a process are kMostReaders at
/// most, but that each of these has one.
class ReaderThreads {
 public:
  static constexpr size_t kMostReaders = 256;
  using Lock = std::unique_lock<std::mutex>;

  /// While it lives, a lock that is held is let go of.
  class Unlocked {
   public:
    explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Lock& lock_;
  };

  /// read: called with `lock` held, of which it lets go while it reads; false when there is nothing
  /// to read. What it throws counts as that. lock must outlive this.
  ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read,
                std::chrono::milliseconds idle = std::chrono::seconds(5));
  /// leave(), and waits for what is being read.
  ~ReaderThreads();

  /// Nothing is read any more, and what a store has to send is left (LeaveWhen).
  void leave();

  /// Somebody waits for bytes.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }
  /// Whether somebody has since there was last nothing to read.
  bool hurried() const { return hurried_.load(std::memory_order_relaxed); }

  // With the lock held:

  /// There is more to read, for one thread or for all.
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

  // Under the lock:
  size_t working_ = 0;  ///< that have not left
  size_t idle_ = 0;
  double refused_until_ = 0;  ///< the system had no more threads
  std::condition_variable more_;
  std::list<Reader> readers_;
};

}  // namespace composer
