// Threads that wait for storage: how many there are, and that nothing they meet ends the process.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <stdexcept>

#include "base/remote/leaving.h"
#include "data/loading/read_ahead.h"
#include "tests/data/eventually.h"

namespace composer::reader_threads_test {

using namespace composer::test;
using std::chrono::milliseconds;

namespace {

/// Reads that begin when there is work, and end when they are let go.
class Reads {
 public:
  explicit Reads(size_t most, milliseconds idle = milliseconds(20))
      : readers_(
            lock_, most, [this](ReaderThreads::Lock& lock) { return read(lock); }, idle) {}
  ~Reads() { let_go(); }

  void want(int reads) {
    const std::lock_guard guard(lock_);
    wanted_ += reads;
    readers_.hurry();
    readers_.wake_all();
  }
  void let_go() {
    const std::lock_guard guard(lock_);
    held_ = false;
    changed_.notify_all();
  }
  void fail_once() {
    const std::lock_guard guard(lock_);
    fails_ = true;
  }
  size_t threads() {
    const std::lock_guard guard(lock_);
    return readers_.count();
  }
  int done() {
    const std::lock_guard guard(lock_);
    return done_;
  }
  int running() {
    const std::lock_guard guard(lock_);
    return running_;
  }

 private:
  bool read(ReaderThreads::Lock& lock) {
    if (wanted_ == 0) return false;
    --wanted_;
    readers_.hurry();
    if (std::exchange(fails_, false)) {
      lock.unlock();
      throw std::runtime_error("no memory");
    }
    ++running_;
    changed_.wait(lock, [&] { return !held_; });
    --running_;
    ++done_;
    return true;
  }

  std::mutex lock_;
  std::condition_variable changed_;
  int wanted_ = 0, running_ = 0, done_ = 0;
  bool held_ = true, fails_ = false;
  ReaderThreads readers_;
};

}  // namespace

TEST_CASE("readers without work leave, and come again", "[data]") {
  Reads reads(8);
  for (const int done : {6, 12}) {
    reads.want(6);
    reads.let_go();
    CHECK(eventually([&] { return reads.done() == done; }));
    CHECK(eventually([&] { return reads.threads() == 0; }));
  }
}

TEST_CASE("the readers of all loaders together have a limit, and each loader has one", "[data]") {
  constexpr auto kMost = static_cast<int>(ReaderThreads::kMostReaders);
  Reads first(1000), second(1000);
  first.want(kMost + 20);
  CHECK(eventually([&] { return first.running() == kMost; }));
  second.want(2);
  CHECK(eventually([&] { return second.running() == 1; }));
  CHECK(first.threads() == ReaderThreads::kMostReaders);
  CHECK(second.threads() == 1);
  first.let_go(), second.let_go();
  CHECK(eventually([&] { return first.done() == kMost + 20 && second.done() == 2; }));
  CHECK(eventually([&] { return first.threads() + second.threads() == 0; }));
}

TEST_CASE("what a reader throws is no end of the others", "[data]") {
  Reads reads(1);
  reads.let_go();
  reads.fail_once();
  reads.want(2);
  CHECK(eventually([&] { return reads.threads() == 0 || reads.done() == 1; }));
  reads.want(1);
  CHECK(eventually([&] { return reads.done() == 2; }));
}

TEST_CASE("readers are told when nobody waits for them any more", "[data]") {
  std::mutex lock;
  std::atomic<bool> reading = false, left = false;
  {
    ReaderThreads readers(lock, 1, [&](ReaderThreads::Lock& held) {
      held.unlock();
      reading = true;
      while (!LeaveWhen::asked()) std::this_thread::sleep_for(milliseconds(1));
      left = true;
      held.lock();
      return false;
    });
    {
      const std::lock_guard guard(lock);
      readers.wake_one();
    }
    while (!reading) std::this_thread::sleep_for(milliseconds(1));
    CHECK_FALSE(LeaveWhen::asked());
  }
  CHECK(left);
}

}  // namespace composer::reader_threads_test
