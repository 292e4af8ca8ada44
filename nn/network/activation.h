#pragma once

namespace composer {

/// What follows a layer within the same call.
enum class Activation {
  none,
  relu,
  gelu,  ///< x * Phi(x), Phi the standard normal distribution
};

}  // namespace composer
