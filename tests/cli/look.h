// Runs commands of the program `composer` that only look.
#pragma once

#include "cli/main.h"
#include "program.h"

namespace composer {

/// As run(), by a copy of this process: loading LibTorch takes longer than such a command. Only in
/// cases tagged [slow], which have a process each: a copy has none of the compute threads that
/// others start.
inline Outcome look(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  return Process(folder, words, PROGRAM, main).wait();
}

}  // namespace composer
