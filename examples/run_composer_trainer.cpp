// The plain trainer: `composer train` as a program of its own. Copy it, and register your
// components before the call.
//
//   composer -n 1 examples/run_composer_trainer -f resnet50 --max_duration 88ep
#include "cli/main.h"

int main(int argc, char** argv) { return composer::main(argc, argv); }
