// Stands in for libcomposer_cuda.so: hands on the recorder of the stand-in for LibTorch's CUDA
// library, which knows the operators.
#include <dlfcn.h>

#include "composer/run/step_recorder.h"

extern "C" composer::StepRecorder* composer_step_recorder() {
  auto* const open =
      reinterpret_cast<OpenStepRecorder*>(dlsym(RTLD_DEFAULT, "composer_stand_in_recorder"));
  return open();
}
