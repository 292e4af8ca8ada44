// CUDA graphs of the stand-in's GPU: a recorded step leaves memory as it was; a replay calls the
// same operators on the same memory, and no code of the host.
#include "composer/run/step_recorder.h"
#include "tests/stand_in/log.h"
#include "tests/stand_in/memory.h"
#include "tests/stand_in/tape.h"

namespace composer::stand_in {
namespace {

class TapeRecording : public Recording {
 public:
  explicit TapeRecording(Tape tape) : tape_(std::move(tape)) {}
  void replay() override {
    note("replayed");
    for (const auto& entry : tape_) entry();
  }

 private:
  Tape tape_;
};

class TapeRecorder : public StepRecorder {
 public:
  void run(const std::function<void()>& work) override { work(); }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    note("recorded");
    const auto before = DeviceMemory::contents();
    Tape tape;
    recording = &tape;
    const auto end = [&] {
      recording = nullptr;
      DeviceMemory::restore(before);
    };
    try {
      work();
    } catch (...) {
      end();
      throw;
    }
    end();
    return std::make_unique<TapeRecording>(std::move(tape));
  }
  void free_memory() override {}
};

}  // namespace
}  // namespace composer::stand_in

extern "C" void composer_stand_in_record(const std::function<void()>& entry) {
  if (composer::stand_in::recording != nullptr) composer::stand_in::recording->push_back(entry);
}

extern "C" composer::StepRecorder* composer_stand_in_recorder() {
  return new composer::stand_in::TapeRecorder;
}
