#include "data/loading/reader_threads.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/remote/leaving.h"
#include "base/several_threads.h"

namespace composer {
namespace {

std::atomic<size_t> g_readers{0};  // threads of all pools

}  // namespace

ReaderThreads::ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read,
                             std::chrono::milliseconds idle)
    : lock_(lock), most_(most), read_(std::move(read)), idle_time_(idle) {}

ReaderThreads::~ReaderThreads() {
  leave();
  for (auto& reader : readers_) reader.thread.join();
}

void ReaderThreads::leave() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  more_.notify_all();
}

void ReaderThreads::wake_one() {
  if (working_ == 0) add();
  if (idle_ > 0) more_.notify_one();
}

void ReaderThreads::wake_all() {
  if (working_ == 0) add();
  if (idle_ > 0) more_.notify_all();
}

/// Where the system gives no more threads, adds none for a second.
void ReaderThreads::add() {
  if (stopping_ || working_ >= most_ || steady_seconds() < refused_until_) return;
  if (g_readers.fetch_add(1) >= kMostReaders && working_ > 0) {
    --g_readers;
    return;
  }
  readers_.remove_if([](Reader& reader) {
    if (reader.left) reader.thread.join();
    return reader.left;
  });
  try {
    Reader& reader = readers_.emplace_back();
    reader.thread = std::thread([this, &reader, number = working_] {
      set_thread_name("reader " + std::to_string(number));
      work(reader);
    });
    ++working_;
  } catch (const std::exception&) {
    if (!readers_.empty() && !readers_.back().thread.joinable()) readers_.pop_back();
    --g_readers;
    refused_until_ = steady_seconds() + 1;
  }
}

bool ReaderThreads::read(Lock& lock) {
  try {
    return read_(lock);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    return false;
  }
}

void ReaderThreads::work(Reader& self) {
  const LeaveWhen leaving(stopping_);
  Lock lock(lock_);
  bool timed_out = false;
  while (!stopping_) {
    // Each thread adds one per read: the number doubles in the time of a read.
    if (idle_ == 0 && hurried()) add();
    if (read(lock)) {
      timed_out = false;
      continue;
    }
    hurried_.store(false, std::memory_order_relaxed);
    if (stopping_ || timed_out) break;
    ++idle_;
    timed_out = more_.wait_for(lock, idle_time_) == std::cv_status::timeout;
    --idle_;
  }
  self.left = true;
  --working_;
  --g_readers;
}

}  // namespace composer
