#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/main.h"

/// Ends without static destructors: those of LibTorch's operators take longer than many a command.
int main(int argc, char** argv) {
  const int status = composer::main(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}
