// Runs commands of the program `composer` that only look.
#pragma once

#include <filesystem>
#include <iterator>

#include "cli/main.h"
#include "nn/device/cuda.h"
#include "program.h"

namespace composer {

/// As run(), by a copy of this process where that has one thread (a copy has none of the others)
/// and no GPU (a copy cannot use it), as in a case tagged [slow] that computes nothing: loading
/// LibTorch takes longer than such a command.
inline Outcome look(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  if (std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) > 1 ||
      open_cuda().gpus > 0)
    return run(folder, words);
  return Process(folder, words, PROGRAM, main).wait();
}

}  // namespace composer
