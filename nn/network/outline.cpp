#include "nn/network/outline.h"

#include <map>

#include "base/name_pattern.h"
#include "nn/network/surgery.h"

namespace composer {
namespace {

/// path -> description of the layer.
std::map<std::string, std::string> by_path(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> layers;
  for (const auto& line : lines) {
    const auto colon = line.find(": ");
    if (colon != std::string::npos) layers[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return layers;
}

/// Other versions may compute the activation in the layer before, without a slot of its own.
bool only_activates(const std::string& layer) { return layer == "ReLU" || layer == "GELU"; }

}  // namespace

std::vector<std::string> outline(Block& root) {
  std::vector<std::string> lines;
  for (const auto& [path, layer, next, slot] : placed_layers(root)) {
    if (dynamic_cast<Block*>(layer) == nullptr || layer->describe() != layer->name())
      lines.push_back(path + ": " + layer->describe());
    if (next != Activation::none)
      lines.push_back(path + ".then: " + (next == Activation::relu ? "ReLU" : "GELU"));
  }
  return lines;
}

std::vector<std::string> in_use(std::vector<std::string> lines) {
  const auto mark = in_training("");
  const auto begin = mark.substr(0, mark.size() - 1);
  for (auto& line : lines)
    for (size_t at = 0; (at = line.find(begin, at)) != std::string::npos;)
      line.erase(at, line.find(']', at) - at + 1);
  return lines;
}

std::vector<std::string> differences(const std::vector<std::string>& there,
                                     const std::vector<std::string>& here,
                                     const std::vector<std::string>& ignored) {
  const auto theirs = by_path(there), ours = by_path(here);
  std::vector<std::string> lines;
  const auto may_differ = [&](const std::string& path) {
    return fits_any(path + ".weight", ignored) || fits_any(path, ignored);
  };
  for (const auto& [path, layer] : theirs) {
    const auto found = ours.find(path);
    if (may_differ(path) || (found != ours.end() && found->second == layer)) continue;
    if (found == ours.end() && only_activates(layer)) continue;
    lines.push_back(path + ": " + layer + " there, " +
                    (found == ours.end() ? "nothing" : found->second) + " here");
  }
  for (const auto& [path, layer] : ours)
    if (!theirs.contains(path) && !may_differ(path) && !only_activates(layer))
      lines.push_back(path + ": nothing there, " + layer + " here");
  return lines;
}

}  // namespace composer
