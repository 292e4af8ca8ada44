#include "data/reader_threads.h"

#include <c10/util/thread_name.h>

#include <string>
#include <system_error>
#include <utility>

namespace composer {

ReaderThreads::ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read)
    : lock_(lock), read_(std::move(read)), most_(most) {}

ReaderThreads::~ReaderThreads() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  more_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ReaderThreads::wake_one() {
  if (threads_.empty()) add();
  if (idle_ > 0) more_.notify_one();
}

void ReaderThreads::wake_all() {
  if (threads_.empty()) add();
  if (idle_ > 0) more_.notify_all();
}

/// Where the system gives no more threads, those that there are have to do.
void ReaderThreads::add() {
  if (stopping_ || threads_.size() >= most_) return;
  try {
    threads_.emplace_back([this, number = threads_.size()] {
      c10::setThreadName("reader " + std::to_string(number));
      work();
    });
  } catch (const std::system_error&) {
    most_ = threads_.size();
  }
}

void ReaderThreads::work() {
  Lock lock(lock_);
  while (!stopping_) {
    // Each adds one, once a read: they double in the time of a read.
    if (idle_ == 0 && hurried_.load(std::memory_order_relaxed)) add();
    if (read_(lock)) continue;
    hurried_.store(false, std::memory_order_relaxed);
    if (stopping_) break;
    ++idle_;
    more_.wait(lock);
    --idle_;
  }
}

}  // namespace composer
