// Training steps as CUDA graphs: a step is captured once for each shape of a batch and then
// replayed, which spares the host the launches of single kernels.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "composer/loop/engine.h"
#include "composer/loop/state.h"
#include "composer/run/step_recorder.h"
#include "nn/network/batch.h"
#include "nn/optimization/optimizer.h"

namespace composer {

/// Why the steps of a run cannot be replayed, naming the algorithm or callback; empty if they can.
/// alone: there is one rank.
std::string prevents_graph_capture(const Engine& engine, bool alone);

/// A step could not be captured for want of memory, and nothing of it was done.
class NotRecorded : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

class CapturedSteps {
 public:
  /// Steps of a shape that run before one is captured. There are more if loss scaling skipped all
  /// of them and the optimizer's first update is still to come.
  static constexpr int64_t warm_ups = 3;
  /// The most captured shapes that are kept.
  static constexpr size_t most_recordings = 64;

  /// required: a step that cannot be captured is a RunError; else it causes a warning, and all
  /// further steps run without graphs.
  CapturedSteps(std::shared_ptr<StepRecorder> recorder, bool required)
      : recorder_(std::move(recorder)), required_(required) {}

  /// Does the work of `step`: one update of the weights from state.batch, whose mean loss it
  /// returns. Leaves state.batch unchanged. The next call overwrites the loss, state.outputs,
  /// state.loss and the gradients.
  at::Tensor run(State& state, const std::function<at::Tensor()>& step);

  size_t recordings() const;  ///< the number of kept recordings

  /// Makes run() throw NotRecorded if a required capture fails for want of memory: the caller will
  /// repeat the step.
  void hand_on_out_of_memory() { hands_on_out_of_memory_ = true; }
  /// Destroys all recordings, and frees their memory on the device.
  void forget();

 private:
  /// The properties of a batch on which a step's kernels depend.
  struct Shape {
    std::vector<std::vector<int64_t>> sizes;  ///< sizes, strides and types of the batch's tensors
    double smoothing;
    int64_t microbatches;
    auto operator<=>(const Shape&) const = default;
  };
  /// Further facts that a recording takes for constant.
  struct Footing {
    std::vector<ParameterSettings> settings;
    std::vector<const void*> memory;
    std::vector<bool> trained;
    bool operator==(const Footing&) const = default;
  };
  struct Step {
    int64_t done = 0;  ///< steps that ran before the capture
    Batch batch;       ///< the memory that the kernels read
    at::Tensor mean_loss;
    at::Tensor loss, outputs;            ///< results of the recording, as all following members
    std::vector<at::Tensor> gradients;   ///< gradients in the order of the optimizer's parameters
    std::vector<at::Tensor> counters;    ///< buffers on the CPU, which a replay does not change
    std::vector<at::Tensor> increments;  ///< the counters' increments per step
    std::unique_ptr<Recording> recording{};  ///< destroyed before the tensors it writes
  };

  static Shape shape_of(const State& state);
  Footing footing_of(const State& state) const;
  Step& step_for(const State& state);
  void run_on(Step& step, State& state, const std::function<at::Tensor()>& body);
  void warm_up(Step& step, State& state, const std::function<void()>& work);
  void record(Step& step, State& state, const std::function<void()>& work);
  static void keep_results(Step& step, const State& state);
  static void drop_results(Step& step, State& state);
  static void replay(Step& step, State& state);
  void give_up(const std::string& reason);

  std::shared_ptr<StepRecorder> recorder_;  ///< null: steps run without graphs
  bool required_, hands_on_out_of_memory_ = false;
  std::map<Shape, Step> steps_;
  Footing footing_;
  std::vector<at::Tensor> buffers_;
};

/// Graphs for the steps of a run. word: the recipe's key `cuda_graph`: auto, true or false. Null if
/// steps cannot be replayed; the log tells why. recorder: null: the device's own. UserError if
/// `word` is true and steps cannot be replayed.
std::unique_ptr<CapturedSteps> captured_steps(std::string_view word, const Engine& engine,
                                              const State& state,
                                              std::shared_ptr<StepRecorder> recorder);

}  // namespace composer
