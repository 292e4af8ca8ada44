#include "nn/optimization/parameter_groups.h"

#include <cmath>

#include "base/name_pattern.h"
#include "nn/network/layer.h"

namespace composer {
namespace {

bool has_norm(const torch::nn::Module& module) {
  return std::ranges::any_of(module.modules(), [](const auto& part) {
    return dynamic_cast<const NormLayer*>(part.get()) != nullptr;
  });
}

bool has_matrix(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(), [](const auto& p) { return p.dim() > 1; });
}

bool holds_blocks(Layer& layer) {
  auto* const row = dynamic_cast<Sequential*>(&layer);
  return row != nullptr && std::ranges::any_of(row->slots(), [](const Slot& slot) {
           return dynamic_cast<Block*>(slot.layer().get()) != nullptr && has_matrix(*slot.layer());
         });
}

/// Whether it is a Sequential that is entered to find layers.
bool is_row_of_layers(Layer& layer) {
  auto* const row = dynamic_cast<Sequential*>(&layer);
  if (row == nullptr) return false;
  return holds_blocks(layer) || std::ranges::count_if(row->slots(), [](const Slot& slot) {
                                  return has_matrix(*slot.layer());
                                }) > 1;
}

class DepthWalk {
 public:
  void walk(Block& block, const std::string& prefix) {
    const bool blocks = std::ranges::any_of(
        block.slots(), [](const Slot& slot) { return holds_blocks(*slot.layer()); });
    for (const Slot& slot : block.slots()) {
      Layer& layer = *slot.layer();
      const bool stem = layers.empty() && blocks && !holds_blocks(layer);
      const auto path = prefix + slot.name();
      if (!stem && is_row_of_layers(layer))
        walk(static_cast<Block&>(layer), path + ".");
      else
        add(layer, path + ".");
    }
  }

  std::vector<std::vector<std::string>> layers;

 private:
  void add(const Layer& layer, const std::string& prefix) {
    const auto parameters = layer.named_parameters();
    if (parameters.is_empty()) return;
    const bool block = dynamic_cast<const Block*>(&layer) != nullptr;
    // A norm outside of blocks belongs to the layer before it, or to a block before it that has no
    // norm or is a Sequential.
    if (layers.empty() || block || after_block_ || (has_matrix(layer) && has_matrix_))
      layers.emplace_back(), has_matrix_ = false;
    for (const auto& item : parameters) layers.back().push_back(prefix + item.key());
    has_matrix_ |= has_matrix(layer);
    after_block_ = block && dynamic_cast<const Sequential*>(&layer) == nullptr && has_norm(layer);
  }

  bool after_block_ = false;
  bool has_matrix_ = false;  ///< whether the last entry of `layers` has a matrix
};

}  // namespace

void read_value(const Value& value, const Rules&, const std::string& path, GroupRule& out,
                Problems& problems) {
  read_fields(value, collect(out), path, problems);
}

Value write_value(const GroupRule& rule) {
  GroupRule copy = rule;
  return write_fields(collect(copy));
}

const GroupRule* rule_for(const std::string& name, const std::vector<GroupRule>& groups) {
  const auto found =
      std::ranges::find_if(groups, [&](const auto& rule) { return fits(name, rule.pattern); });
  return found == groups.end() ? nullptr : &*found;
}

std::vector<std::vector<std::string>> parameters_by_depth(Block& network) {
  DepthWalk walk;
  walk.walk(network, "");
  return walk.layers;
}

std::map<std::string, double> scales_by_depth(Block& network, double decay) {
  const auto layers = parameters_by_depth(network);
  std::map<std::string, double> scales;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& name : layers[i])
      scales[name] = std::pow(decay, static_cast<double>(layers.size() - 1 - i));
  return scales;
}

}  // namespace composer
