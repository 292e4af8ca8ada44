#include "scale/weight_shares.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/balanced.h"
#include "nn/network/sharded_parameters.h"

namespace composer {

double TrainedWeights::elements() const {
  return std::accumulate(
      parameters.begin(), parameters.end(), 0.0,
      [](double sum, const Parameter& parameter) { return sum + parameter.elements; });
}

TrainedWeights trained_weights(Model& model) {
  TrainedWeights weights;
  std::map<const Layer*, size_t> numbers;
  std::map<const at::TensorImpl*, std::set<size_t>> users;
  for (const auto& placed : weight_units(model)) {
    const size_t number = numbers.try_emplace(placed.layer, numbers.size()).first->second;
    weights.units[placed.path] = number;
    for (const auto& parameter : placed.layer->parameters())
      users[parameter.unsafeGetTensorImpl()].insert(number);
  }
  std::set<const at::TensorImpl*> seen;
  for (const auto& item : model.named_parameters()) {
    const auto* const parameter = item.value().unsafeGetTensorImpl();
    if (!item.value().requires_grad() || !seen.insert(parameter).second) continue;
    const auto& units = users[parameter];
    weights.parameters.push_back(
        {static_cast<double>(item.value().numel()),
         units.size() == 1 ? std::optional(*units.begin()) : std::nullopt});
  }
  return weights;
}

double WeightShares::largest_unit() const {
  return units.empty() ? 0 : std::ranges::max(units, {}, &Owned::elements).elements;
}

WeightShares shares_of(const TrainedWeights& weights, int64_t ranks) {
  std::vector<double> sizes, loads(static_cast<size_t>(ranks));
  for (const auto& parameter : weights.parameters) sizes.push_back(parameter.elements);
  const auto owners = balanced(sizes, loads);

  size_t count = 0;
  for (const auto& [path, number] : weights.units) count = std::max(count, number + 1);
  std::vector<std::set<size_t>> of_units(count);
  std::set<size_t> of_rest;
  WeightShares shares;
  shares.units.resize(count);
  for (size_t i = 0; i < owners.size(); ++i) {
    const auto& [elements, unit] = weights.parameters[i];
    loads[owners[i]] += elements;
    (unit ? shares.units[*unit] : shares.rest).elements += elements;
    (unit ? of_units[*unit] : of_rest).insert(owners[i]);
  }
  for (size_t unit = 0; unit < count; ++unit)
    shares.units[unit].owners = static_cast<double>(of_units[unit].size());
  shares.rest.owners = static_cast<double>(of_rest.size());
  shares.largest = std::ranges::max(loads);
  shares.all = {weights.elements(),
                static_cast<double>(std::set(owners.begin(), owners.end()).size())};
  return shares;
}

}  // namespace composer
