// How a run ended, for those who are told of it.
#pragma once

#include <string>

namespace composer {

struct RunEnd {
  std::string status;   ///< completed, interrupted or failed, as in summary.json
  std::string message;  ///< of a failed run what went wrong, of an interrupted one by what
};

}  // namespace composer
