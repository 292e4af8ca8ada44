// The streams of the stand-in's GPU. What is queued on the first one is done at once. A copy to the
// GPU on another is done when something waits for it, and until then its result is not what was
// copied.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <functional>

namespace composer::stand_in {

inline thread_local c10::StreamId current_stream = 0;

class CopiesUnderWay {
 public:
  static void begin(std::function<void()> copy) {
    queue().push_back(std::move(copy));
    ++begun();
  }
  /// An event of what was queued on the stream by now.
  static void* event_on(c10::StreamId stream) {
    return reinterpret_cast<void*>(stream == 0 ? 1 : begun() + 1);
  }
  static void wait_for(void* event) {
    while (reinterpret_cast<uintptr_t>(event) > begun() - queue().size() + 1) {
      queue().front()();
      queue().pop_front();
    }
  }
  static void wait_for_all() { wait_for(event_on(1)); }

 private:
  static std::deque<std::function<void()>>& queue() {
    static auto* copies = new std::deque<std::function<void()>>;
    return *copies;
  }
  static uintptr_t& begun() {
    static uintptr_t count = 0;
    return count;
  }
};

}  // namespace composer::stand_in
