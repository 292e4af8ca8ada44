#include "cli/in_order.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace composer {
namespace {

constexpr int64_t window_per_thread = 64;

/// A bounded window of results between the workers and the reporting thread.
class Window {
 public:
  Window(int64_t count, int threads)
      : count_(count), slots_(static_cast<size_t>(threads * window_per_thread)) {}

  void work(const std::function<SampleWorker()>& make_worker) {
    std::exception_ptr broken;
    SampleWorker worker;
    try {
      worker = make_worker();
    } catch (...) {
      broken = std::current_exception();
    }
    for (int64_t index; (index = take()) >= 0;) {
      Slot result{nullptr, broken, true};
      try {
        if (!broken) result.report = worker(index);
      } catch (...) {
        result.error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      slot(index) = std::move(result);
      changed_.notify_all();
    }
  }

  void report_all() {
    for (; reported_ < count_;) {
      Slot result;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return slot(reported_).ready; });
        result = std::exchange(slot(reported_), {});
      }
      if (result.error) std::rethrow_exception(result.error);
      if (result.report) result.report();
      const std::lock_guard lock(mutex_);
      ++reported_;
      changed_.notify_all();
    }
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  struct Slot {
    SampleReport report;
    std::exception_ptr error;
    bool ready = false;
  };

  Slot& slot(int64_t index) { return slots_[static_cast<size_t>(index) % slots_.size()]; }

  /// The next index to process; -1 when there is none.
  int64_t take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopped_ || next_ >= count_ || next_ - reported_ < static_cast<int64_t>(slots_.size());
    });
    return stopped_ || next_ >= count_ ? -1 : next_++;
  }

  const int64_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  int64_t next_ = 0, reported_ = 0;
  bool stopped_ = false;
};

}  // namespace

void in_order(int64_t count, int threads, const std::function<SampleWorker()>& make_worker) {
  Window window(count, threads);
  std::vector<std::jthread> workers;
  struct Stop {  // stops the workers before they are joined, also on an exception
    Window& window;
    ~Stop() { window.stop(); }
  } stop{window};
  for (int i = 0; i < threads; ++i) workers.emplace_back([&] { window.work(make_worker); });
  window.report_all();
}

}  // namespace composer
