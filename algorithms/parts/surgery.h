// What the methods share that put layers in place of others at init.
#pragma once

#include <string>
#include <vector>

#include "composer/loop/algorithm.h"
#include "nn/network/surgery.h"

namespace composer {

/// Reports the replacements that its init() made. Layers that do not do the same work in every step
/// need an prevents_graph_capture() of their own.
class Surgery : public Algorithm {
 public:
  std::vector<std::string> report() const override { return lines(replacements_); }
  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }

 protected:
  /// Prints "<before> <number of replacements> <after>" and logs the number as `metric`.
  void log_count(const State& state, const std::string& metric, const std::string& before,
                 const std::string& after) const;

  std::vector<Replacement> replacements_;
};

}  // namespace composer
