// Training steps that are recorded once and replayed from then on, which spares the host the work
// of queueing each kernel anew: CUDA graphs, one for each shape of a batch.
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

/// Why the steps of a run cannot be replayed, naming who is in the way; empty where they can.
/// alone: there is one rank.
std::string prevents_graph_capture(const Engine& engine, bool alone);

/// There is no memory to record a step, of which nothing was done.
class NotRecorded : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

class CapturedSteps {
 public:
  /// Steps of a shape that are done before one is recorded; more where all of them were skipped and
  /// the optimizer's first update is still to come.
  static constexpr int64_t warm_ups = 3;
  /// Shapes that are kept recorded.
  static constexpr size_t most_recordings = 64;

  /// required: a step that cannot be recorded is a RunError; else a warning, and from then on steps
  /// run without.
  CapturedSteps(std::shared_ptr<StepRecorder> recorder, bool required)
      : recorder_(std::move(recorder)), required_(required) {}

  /// Does what `step` does: one update of the weights from state.batch, whose mean loss it returns.
  /// Leaves state.batch as it was. The loss, state.outputs, state.loss and the gradients are
  /// overwritten by the next call.
  at::Tensor run(State& state, const std::function<at::Tensor()>& step);

  size_t recordings() const;  ///< kept now

  /// A step that must be recorded and cannot for want of memory throws NotRecorded: it will be
  /// repeated.
  void hand_on_out_of_memory() { hands_on_out_of_memory_ = true; }
  /// Everything kept goes, and the device has its memory.
  void forget();

 private:
  /// What shapes the kernels of a step.
  struct Shape {
    std::vector<std::vector<int64_t>> sizes;  ///< and strides, of the batch's tensors
    double smoothing;
    int64_t microbatches;
    auto operator<=>(const Shape&) const = default;
  };
  /// What a recording takes for constant beside that.
  struct Footing {
    std::vector<ParameterSettings> settings;
    std::vector<const void*> memory;
    std::vector<bool> trained;
    bool operator==(const Footing&) const = default;
  };
  struct Step {
    int64_t done = 0;  ///< runs before the recording
    Batch batch;       ///< which the kernels read
    at::Tensor mean_loss;
    at::Tensor loss, outputs;                ///< of the recording, as what follows
    std::vector<at::Tensor> gradients;       ///< in the order of the optimizer's parameters
    std::vector<at::Tensor> counters;        ///< on the CPU, which a replay does not reach
    std::vector<at::Tensor> increments;      ///< theirs in a step
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

  std::shared_ptr<StepRecorder> recorder_;  ///< null: given up
  bool required_, hands_on_out_of_memory_ = false;
  std::map<Shape, Step> steps_;
  Footing footing_;
  std::vector<at::Tensor> buffers_;
};

/// For the steps of a run, as the recipe's key `cuda_graph` says: auto, true or false. Null where
/// they are not to be replayed; says why. recorder: null: that of the device. UserError where
/// `word` is true and something is in the way.
std::unique_ptr<CapturedSteps> captured_steps(std::string_view word, const Engine& engine,
                                              const State& state,
                                              std::shared_ptr<StepRecorder> recorder);

}  // namespace composer
