// How long the threads of OpenMP, which LibTorch computes with, spin while they wait for each
// other.
#pragma once

#include <string>

namespace composer {

/// The settings as the OpenMP library has read them, as in the environment:
/// "GOMP_SPINCOUNT=1000". Where the user has set neither OMP_WAIT_POLICY nor GOMP_SPINCOUNT, the
/// program has set this one before the library was started, for itself and its children.
std::string wait_settings();

}  // namespace composer
