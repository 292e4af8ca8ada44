#include "composer/checkpoint/averages.h"

#include "base/error.h"
#include "base/params/kinds.h"

namespace composer {
namespace {

/// What the algorithm puts before the model's names in its state, if it averages the weights.
std::string prefix_of(const std::string& algorithm) {
  const auto& algorithms = registry().algorithms;
  return algorithms.contains(algorithm) ? algorithms.find(algorithm)->average_prefix() : "";
}

/// The averages that an algorithm keeps, by the model's names; empty where it keeps none.
std::map<std::string, at::Tensor> averages_of(const Checkpoint& checkpoint,
                                              const std::string& algorithm) {
  std::map<std::string, at::Tensor> averages;
  const auto prefix = prefix_of(algorithm);
  const auto part = checkpoint.parts.find(path_of(ChoiceKey::algorithms, algorithm));
  if (prefix.empty() || part == checkpoint.parts.end()) return averages;
  for (const auto& [name, tensor] : part->second.tensors)
    if (name.starts_with(prefix)) averages[name.substr(prefix.size())] = tensor;
  return averages;
}

}  // namespace

std::vector<std::string> averaging_algorithms() {
  auto names = registry().algorithms.names();
  std::erase_if(names, [](const auto& name) { return prefix_of(name).empty(); });
  return names;
}

bool acts_on_predictions(const Component& algorithm) {
  return algorithm.subscriptions().test(static_cast<size_t>(Event::predict_start)) ||
         algorithm.subscriptions().test(static_cast<size_t>(Event::predict_after_forward));
}

std::string weights_of_evaluation(const Checkpoint& checkpoint) {
  for (const auto& algorithm : averaging_algorithms())
    if (acts_on_predictions(*registry().algorithms.find(algorithm)) &&
        !averages_of(checkpoint, algorithm).empty())
      return algorithm;
  return "model";
}

std::map<std::string, at::Tensor> weights_of(const Checkpoint& checkpoint,
                                             const std::string& algorithm,
                                             const std::string& path) {
  auto tensors = checkpoint.model;
  if (algorithm == "model") return tensors;
  if (!checkpoint.parts.contains(path_of(ChoiceKey::algorithms, algorithm)))
    throw UserError(path + ": has no weights of " + algorithm +
                    ": the run was without it, or had not come to its start");
  const auto averages = averages_of(checkpoint, algorithm);
  for (const auto& [name, tensor] : averages) {
    const auto place = tensors.find(name);
    if (place == tensors.end())
      throw UserError(path + ": the model has no tensor for '" + name + "' of " + algorithm);
    place->second = tensor;
  }
  if (averages.empty())
    throw UserError(path + ": holds no average of " + algorithm +
                    ": either nothing is averaged yet, or the average is the model by now; use "
                    "--weights model");
  return tensors;
}

}  // namespace composer
