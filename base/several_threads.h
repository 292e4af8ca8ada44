// Threads: their names, and work that waits for storage rather than computes.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace composer {

/// Calls work(0) to work(count - 1) on up to `most` threads, the caller's included. After an
/// exception no further call begins; the first exception is rethrown.
template <class Work>
void in_several_threads(uint64_t count, const Work& work, uint64_t most = 32) {
  std::atomic<uint64_t> next = 0;
  std::mutex lock;
  std::exception_ptr problem;
  const auto go = [&] {
    try {
      for (uint64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard guard(lock);
      if (!problem) problem = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(most, count)) threads.emplace_back(go);
  } catch (const std::system_error&) {  // the system has no more threads
  }
  go();
  for (auto& thread : threads) thread.join();
  if (problem) std::rethrow_exception(problem);
}

/// Names the calling thread, as debuggers and `top -H` show it, by the first 15 bytes of `name`.
inline void set_thread_name(std::string name) {
  if (name.size() > 15) name.resize(15);
  pthread_setname_np(pthread_self(), name.c_str());
}

}  // namespace composer
