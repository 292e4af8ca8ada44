// The interface for capturing a training step on a device, to be replayed: CUDA graphs. cuda/
// includes it without LibTorch.
#pragma once

#include <functional>
#include <memory>

namespace composer {

/// Captured work on a device, which can be repeated on the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Queues the work behind all queued work, without waiting for it.
  virtual void replay() = 0;
};

class StepRecorder {
 public:
  virtual ~StepRecorder() = default;

  /// Calls `work` as record() does, without capturing it: for warm-up runs.
  virtual void run(const std::function<void()>& work) = 0;

  /// Calls `work`, and captures its work for the device without doing it. Tensors that it leaves
  /// alive keep their memory while they live; all recordings share the memory of the others, and
  /// only one replays at a time. Throws exceptions of `work`, and if `work` does something that
  /// cannot be captured, such as waiting for the device.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  /// Waits for the device and frees unused memory, also that of destroyed recordings.
  virtual void free_memory() = 0;
};

}  // namespace composer

/// Makes the StepRecorder of cuda/ for the current device. The caller owns it.
using OpenStepRecorder = composer::StepRecorder*();
extern "C" OpenStepRecorder composer_step_recorder;
