// What records a training step on a device so that it can be replayed: CUDA graphs. Included by
// what includes no LibTorch.
#pragma once

#include <functional>
#include <memory>

namespace composer {

/// Work on a device, to be done again and again from and to the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Queues the work after all that was queued before, without waiting for it.
  virtual void replay() = 0;
};

class StepRecorder {
 public:
  virtual ~StepRecorder() = default;

  /// Calls `work` as record() will: for the runs before, which make what it needs once.
  virtual void run(const std::function<void()>& work) = 0;

  /// Calls `work`, whose work for the device is recorded and not done. The memory of the tensors it
  /// leaves alive is theirs for as long as they live; that of all others belongs to all recordings,
  /// of which one replays at a time. What `work` throws is thrown; also where it does what cannot
  /// be recorded, such as wait for the device.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  /// Waits for the device and gives it back what nothing uses, also of recordings that are gone.
  virtual void free_memory() = 0;
};

}  // namespace composer

/// What cuda/ has for it, for the current device. The caller owns it.
using OpenStepRecorder = composer::StepRecorder*();
extern "C" OpenStepRecorder composer_step_recorder;
