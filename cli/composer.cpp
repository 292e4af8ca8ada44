#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/main.h"

/// Skips static destructors: those of LibTorch's operators take longer than many commands.
int main(int argc, char** argv) {
  const int status = composer::main(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}
