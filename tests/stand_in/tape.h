// What the stand-in's GPU does while a step is recorded.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <string>
#include <vector>

namespace composer::stand_in {

/// The operators, in the order in which they were called.
using Tape = std::vector<std::function<void()>>;

/// Null while nothing is recorded. Of all threads: the gradients' has a part in a step.
inline Tape* recording = nullptr;

/// CUDA refuses to record what waits for it.
inline void refuse_while_recording(const std::string& what) {
  TORCH_CHECK(recording == nullptr, what, ": operation not permitted when stream is capturing");
}

}  // namespace composer::stand_in
