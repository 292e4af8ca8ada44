// Waiting for a condition instead of a time.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace composer::test {

/// Whether it becomes true. The limit is for a machine that is busy with other things.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

}  // namespace composer::test
