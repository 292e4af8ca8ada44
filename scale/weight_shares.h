// Which ranks the trained parameters belong to where ranks divide what they keep (zero1, fsdp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/network/model.h"

namespace composer {

/// The parameters of a network that are trained, and the units that gather weights together
/// (ShardedParameters).
struct TrainedWeights {
  struct Parameter {
    double elements = 0;
    std::optional<size_t> unit{};  ///< none: of no unit, or of several
  };
  std::vector<Parameter> parameters;    ///< in the order of the network
  std::map<std::string, size_t> units;  ///< by the paths of their slots, numbered from 0

  double elements() const;
};

TrainedWeights trained_weights(Model& model);

/// Trained parameters, and to how many ranks they belong.
struct Owned {
  double elements = 0;
  double owners = 0;
};

struct WeightShares {
  Owned all;
  std::vector<Owned> units;  ///< as TrainedWeights numbers them
  Owned rest;                ///< of no unit
  double largest = 0;        ///< elements of the rank that has most

  double largest_unit() const;
};

/// Each parameter to one rank, as an optimizer shares them out (Optimizer::attach): the largest
/// first, each to the rank that has least.
WeightShares shares_of(const TrainedWeights& weights, int64_t ranks);

}  // namespace composer
