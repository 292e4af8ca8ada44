// Runs the program `composer` as a user does.
#pragma once

#include "killed_training.h"

namespace composer {

/// Under the current settings, where the words are a training's.
inline Outcome run(const std::filesystem::path& folder, const std::vector<std::string>& words,
                   const std::string& program = PROGRAM) {
  const auto every = current_settings().kill_every;
  if (every > 0 && trains(words) && program == PROGRAM) return run_killed(folder, words, every);
  return Process(folder, words, program).wait();
}

}  // namespace composer
