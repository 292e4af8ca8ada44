// How much memory a run takes.
#pragma once

#include "base/params/params.h"
#include "base/time.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// Bytes, every `interval`: memory/rss, what the process has in memory, and memory/peak_rss, the
/// most of it so far; on a GPU also memory/allocated_mem, memory/peak_allocated_mem and
/// memory/reserved_mem of LibTorch's allocator there.
class MemoryMonitor : public Callback {
 public:
  struct Params {
    Time interval{10, TimeUnit::batch};
    void fields(auto&& f) {
      f("interval", interval, "how often to look, in ep, ba or sp; 0 = never");
    }
    std::string check() const { return check_interval("interval", interval); }
  };
  explicit MemoryMonitor(Params params) : params_(params) {}

  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void epoch_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  Params params_;
};

}  // namespace composer
