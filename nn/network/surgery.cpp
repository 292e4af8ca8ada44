#include "nn/network/surgery.h"

#include <queue>
#include <unordered_set>

namespace composer {
namespace {

void collect_layers(Block& block, const std::string& prefix,
                    std::unordered_set<const Layer*>& entered, std::vector<PlacedLayer>& layers) {
  for (Slot& slot : block.slots()) {
    layers.push_back({prefix + slot.name(), slot.layer().get(), slot.next(), &slot});
    if (auto* inner = dynamic_cast<Block*>(slot.layer().get());
        inner != nullptr && entered.insert(inner).second)
      collect_layers(*inner, prefix + slot.name() + ".", entered, layers);
  }
}

}  // namespace

std::vector<PlacedLayer> placed_layers(Block& root) {
  std::vector<PlacedLayer> layers;
  std::unordered_set<const Layer*> entered{&root};
  collect_layers(root, "", entered, layers);
  return layers;
}

std::vector<Replacement> replace_layers(
    Block& root,
    const std::function<std::shared_ptr<Layer>(const std::string& path, Layer& layer)>& replace) {
  struct Decision {
    std::shared_ptr<Layer> before;  // kept alive, so that no other layer gets its address
    std::shared_ptr<Layer> after;
    std::string description;
  };
  std::unordered_map<const Layer*, Decision>
      decisions;  // a layer in several slots is asked about once
  std::unordered_set<const Block*> entered{&root};
  std::queue<std::pair<Block*, std::string>> blocks;
  std::vector<Replacement> replacements;

  blocks.emplace(&root, "");
  for (; !blocks.empty(); blocks.pop()) {
    const auto [block, prefix] = blocks.front();
    for (Slot& slot : block->slots()) {
      const auto layer = slot.layer();
      const std::string path = prefix + slot.name();
      auto [known, is_new] = decisions.try_emplace(layer.get(), Decision{layer, nullptr, {}});
      Decision& decision = known->second;
      if (is_new) {
        decision.description = layer->describe();
        decision.after = replace(path, *layer);
        if (decision.after == layer) decision.after = nullptr;
      }
      if (decision.after != nullptr) {
        slot.set(decision.after);
        replacements.push_back({path, decision.description, decision.after->describe()});
      } else if (auto* inner = dynamic_cast<Block*>(layer.get());
                 inner != nullptr && entered.insert(inner).second) {
        blocks.emplace(inner, path + ".");
      }
    }
  }
  return replacements;
}

std::vector<std::string> lines(const std::vector<Replacement>& replacements) {
  std::vector<std::string> lines;
  for (const auto& [path, before, after] : replacements)
    lines.push_back(path + ": " + before + " -> " + after);
  return lines;
}

}  // namespace composer
