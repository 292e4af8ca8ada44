// The base class of the algorithms that put no condition on how a step runs.
#pragma once

#include <string>

#include "composer/loop/algorithm.h"

namespace composer {

/// An algorithm whose steps may be captured in a CUDA graph, and which works on sharded parameters.
class UnrestrictedAlgorithm : public Algorithm {
 public:
  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
};

}  // namespace composer
