#pragma once

namespace composer {

/// The activation after a layer, computed in the same call.
enum class Activation {
  none,
  relu,
  gelu,  ///< x * Phi(x), Phi the standard normal distribution
};

}  // namespace composer
