// Catch2's main, which opens CUDA before any test asks about it.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "composer/cuda.h"

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const auto& config = session.configData();
  const bool only_lists = config.listTests || config.listTestNamesOnly || config.listTags;
  if (!only_lists && !config.showHelp) composer::open_cuda();
  return session.run();
}
