// How long the threads of OpenMP, which LibTorch computes with, spin while they wait for each
// other.
#pragma once

#include <string>

namespace composer {

/// The settings of the OpenMP library, as in the environment: "GOMP_SPINCOUNT=1000". Where the user
/// has set neither OMP_WAIT_POLICY nor GOMP_SPINCOUNT, the program sets this one before the library
/// is loaded, for itself and its children, in any environment that is not almost empty. Shared
/// objects cannot link this.
std::string wait_settings();

}  // namespace composer
