// clang-format off
// The program `composer`, as a function: a user's program registers its own components and calls it.
//
//   int main(int argc, char** argv) {
//     composer::registry().algorithms.add<GradientNoise>("gradient_noise", "adds noise to gradients");
//     return composer::main(argc, argv);
//   }
// clang-format on
#pragma once

namespace composer {

/// Registers the built-in components, for programs that read or make recipes without main().
/// Further calls do nothing.
void add_builtin_components();

/// Registers the built-in components, then runs the command line; without a subcommand it trains.
/// Returns the exit status: 0 done, 1 the run failed, 2 the user's input is wrong, 128 + signal
/// when a signal interrupted it.
int main(int argc, char** argv);

}  // namespace composer
