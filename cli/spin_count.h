// How long the OpenMP threads of LibTorch spin while they wait for each other.
#pragma once

#include <string>

namespace composer {

/// The settings of the OpenMP library in the environment: "GOMP_SPINCOUNT=1000". If the user has
/// set neither OMP_WAIT_POLICY nor GOMP_SPINCOUNT, the program sets GOMP_SPINCOUNT=1000 before the
/// library is loaded, for itself and its children, unless the environment is almost empty. Shared
/// objects cannot link this.
std::string wait_settings();

}  // namespace composer
