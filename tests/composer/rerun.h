// A recorder of steps for the CPU, which runs them again.
#pragma once

#include <utility>

#include "composer/run/step_recorder.h"

namespace composer::test {

/// Unlike CUDA it does the work when it records it, and not at the first replay.
class Rerun : public StepRecorder {
 public:
  struct Counts {
    int runs = 0, recordings = 0, replays = 0, freed = 0;
    bool operator==(const Counts&) const = default;
  };

  /// counts: outlives it.
  explicit Rerun(Counts& counts) : counts_(counts) {}

  void run(const std::function<void()>& work) override {
    ++counts_.runs;
    work();
  }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    ++counts_.recordings;
    work();
    return std::make_unique<Again>(counts_, work);
  }
  void free_memory() override { ++counts_.freed; }

 private:
  class Again : public Recording {
   public:
    Again(Counts& counts, std::function<void()> work) : counts_(counts), work_(std::move(work)) {}
    void replay() override {
      ++counts_.replays;
      if (!std::exchange(done_, false)) work_();
    }

   private:
    Counts& counts_;
    std::function<void()> work_;
    bool done_ = true;
  };

  Counts& counts_;
};

}  // namespace composer::test
