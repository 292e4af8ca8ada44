// Learning rates and weight decay of single parameters, by name and by depth.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/params/params.h"
#include "nn/network/layer.h"

namespace composer {

/// Settings of the parameters whose names fit a pattern (base/name_pattern.h).
struct GroupRule {
  std::string pattern;
  double lr_scale = 1;
  std::optional<double> weight_decay = std::nullopt;

  void fields(auto&& f) {
    f("pattern", pattern, "of their names", required);
    f("lr_scale", lr_scale, "factor of their learning rate", at_least(0.0));
    f("weight_decay", weight_decay, "in place of the optimizer's", at_least(0.0));
  }
};

// Lets a list of GroupRule be a field of Params.
template <>
struct FieldType<GroupRule> {
  static std::string name() { return "{pattern, lr_scale, weight_decay}"; }
};
void read_value(const Value& value, const Rules& rules, const std::string& path, GroupRule& out,
                Problems& problems);
Value write_value(const GroupRule& rule);

/// The fields of every optimizer's parameters for settings of single parameters.
struct GroupParams {
  std::vector<GroupRule> groups{};
  std::optional<double> layer_decay = std::nullopt;

  void fields(auto&& f) {
    f("groups", groups,
      "parameters with a learning rate or weight decay of their own; the first pattern that a name "
      "fits counts");
    f("layer_decay", layer_decay,
      "the learning rate of each block, as a share of that of the block after it", above(0.0),
      in(0.0, 1.0));
  }
};

/// The first rule whose pattern fits the name; null where none fits.
const GroupRule* rule_for(const std::string& name, const std::vector<GroupRule>& groups);

/// The names of the network's parameters from input to output, in one list per layer. A block
/// (residual, ...) counts as one layer; outside of blocks a layer begins with a weight matrix or
/// kernel. Sequential is entered, unless it holds only one such layer.
std::vector<std::vector<std::string>> parameters_by_depth(Block& network);

/// The factor of each parameter's learning rate: decay^(layers after its own), 1 in the last layer.
std::map<std::string, double> scales_by_depth(Block& network, double decay);

}  // namespace composer
