#include "cli/main.h"

int main(int argc, char** argv) { return composer::main(argc, argv); }
