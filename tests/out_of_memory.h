// Memory that runs out at chosen steps of a run, and the run that it is compared with.
#pragma once

#include <c10/util/Exception.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "composer/loop/algorithm.h"
#include "composer/loop/state.h"

namespace composer::test {

/// A place of a step, and how often it fails there.
struct Shortage {
  int64_t batch;           ///< that are done before
  std::string place;       ///< an event, or "backward", within the pass
  int times = 1;           ///< in a row
  int64_t rank = 0;        ///< on which it fails
  int64_t microbatch = 0;  ///< of the attempt
};

/// Fails as the allocators of a GPU and of the CPU do, in turn.
class OutOfMemoryAt : public Algorithm {
 public:
  explicit OutOfMemoryAt(std::vector<Shortage> shortages) : shortages_(std::move(shortages)) {}

  std::string prevents_graph_capture() const override { return {}; }
  void before_train_batch(State&) override { microbatch_ = -1; }
  void before_forward(State& state) override {
    // An attempt begins with the first sample of the update.
    microbatch_ = state.first_sample == first_of(state) ? 0 : microbatch_ + 1;
    fail(state, "before_forward");
  }
  void after_forward(State& state) override {
    fail(state, "after_forward");
    if (auto* const found = find(state, "backward"); found != nullptr)
      state.outputs.register_hook([this, found](const at::Tensor&) { run_out(*found); });
  }
  void before_loss(State& state) override { fail(state, "before_loss"); }
  void before_backward(State& state) override { fail(state, "before_backward"); }
  void after_backward(State& state) override { fail(state, "after_backward"); }
  void after_train_batch(State& state) override { fail(state, "after_train_batch"); }
  void batch_start(State& state) override { first_ = state.first_sample; }

  int failures() const { return failures_; }

 private:
  int64_t first_of(const State&) const { return first_; }

  Shortage* find(const State& state, const std::string& place) {
    for (auto& shortage : shortages_)
      if (shortage.times > 0 && shortage.batch == state.time.batch && shortage.place == place &&
          shortage.rank == state.ranks.rank() && shortage.microbatch == microbatch_)
        return &shortage;
    return nullptr;
  }

  void fail(const State& state, const std::string& place) {
    if (auto* const found = find(state, place)) run_out(*found);
  }

  void run_out(Shortage& shortage) {
    --shortage.times;
    if (++failures_ % 2 == 0) throw OutOfMemory("out of memory: 12 MiB for a tensor");
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 12 MiB");
  }

  std::vector<Shortage> shortages_;
  int64_t microbatch_ = -1, first_ = 0;
  int failures_ = 0;
};

/// Splits into twice as many microbatches from the same batches on.
class SplitAt : public Algorithm {
 public:
  explicit SplitAt(const std::vector<Shortage>& shortages) {
    for (const auto& shortage : shortages) times_[shortage.batch] += shortage.times;
  }
  void batch_start(State& state) override {
    if (const auto found = times_.find(state.time.batch); found != times_.end())
      for (int i = 0; i < found->second; ++i) state.grad_accum *= 2;
  }

 private:
  std::map<int64_t, int> times_;
};

}  // namespace composer::test
