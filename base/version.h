// The version of this library.
#pragma once

namespace composer {

inline constexpr const char* version = "0.1.0";

}  // namespace composer
