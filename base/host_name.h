// The name of this machine.
#pragma once

#include <unistd.h>

#include <string>

namespace composer {

/// "localhost" where the machine has none.
inline std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace composer
