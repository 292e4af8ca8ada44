#include "scale/sharded_step.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/balanced.h"
#include "nn/network/sharded_parameters.h"

namespace composer {
namespace {

using Kind = Transfer::Kind;

/// The units in the order in which a forward pass enters them; a unit that is entered again appears
/// again.
struct Visits {
  std::vector<size_t> units;
  /// For each operation, the index of the visit that its time counts for.
  std::vector<size_t> forward, backward;
};

Visits visits_of(const ImageWork& work) {
  Visits visits;
  std::optional<size_t> before;  // unit of the operation before
  for (const auto& operation : work.operations) {
    if (operation.unit && operation.unit != before) visits.units.push_back(*operation.unit);
    const size_t count = visits.units.size(), last = std::max<size_t>(count, 1) - 1;
    visits.forward.push_back(last);
    visits.backward.push_back(operation.unit ? last : count);
    before = operation.unit;
  }
  for (auto& visit : visits.backward)  // no visit comes after the last
    visit = std::min(visit, std::max<size_t>(visits.units.size(), 1) - 1);
  return visits;
}

Transfer transfer_of(Kind kind, const Owned& owned, int64_t element_bytes) {
  return {kind, owned.elements * static_cast<double>(element_bytes), owned.owners};
}

double share_of(double part, double all) { return all > 0 ? part / all : 0; }

Transfer transfer_of(const RowsSent& sent, double images, const StepOptions& options) {
  return {Kind::rows,
          sent.values * images * static_cast<double>(options.value_bytes) +
              (sent.image_sums * images + sent.batch_sums) * sizeof(float),
          sent.messages};
}

}  // namespace

double TrainedParameters::elements() const {
  return std::accumulate(
      parameters.begin(), parameters.end(), 0.0,
      [](double sum, const Parameter& parameter) { return sum + parameter.elements; });
}

TrainedParameters trained_parameters(Model& model) {
  TrainedParameters weights;
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

double ParameterShards::largest_unit() const {
  return units.empty() ? 0 : std::ranges::max(units, {}, &Owned::elements).elements;
}

ParameterShards shards_of(const TrainedParameters& weights, int64_t ranks) {
  std::vector<double> sizes, loads(static_cast<size_t>(ranks));
  for (const auto& parameter : weights.parameters) sizes.push_back(parameter.elements);
  const auto owners = balanced(sizes, loads);

  size_t count = 0;
  for (const auto& [path, number] : weights.units) count = std::max(count, number + 1);
  std::vector<std::set<size_t>> of_units(count);
  std::set<size_t> of_rest;
  ParameterShards shards;
  shards.units.resize(count);
  for (size_t i = 0; i < owners.size(); ++i) {
    const auto& [elements, unit] = weights.parameters[i];
    loads[owners[i]] += elements;
    (unit ? shards.units[*unit] : shards.rest).elements += elements;
    (unit ? of_units[*unit] : of_rest).insert(owners[i]);
  }
  for (size_t unit = 0; unit < count; ++unit)
    shards.units[unit].owners = static_cast<double>(of_units[unit].size());
  shards.rest.owners = static_cast<double>(of_rest.size());
  shards.largest = std::ranges::max(loads);
  shards.all = {weights.elements(),
                static_cast<double>(std::set(owners.begin(), owners.end()).size())};
  return shards;
}

void shard_parameters(StepParts& parts, const ImageWork& work, double images,
                      const StepOptions& options, const ParameterShards& shards,
                      int64_t weight_bytes) {
  const auto seconds = operation_seconds(work, images, options);
  const auto visits = visits_of(work);
  parts.buckets.clear();
  parts.units.assign(std::max<size_t>(visits.units.size(), 1), {});
  parts.passes = options.microbatches;
  double forward = 0, backward = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    parts.units[visits.forward[i]].forward += seconds[i].forward;
    parts.units[visits.backward[i]].backward += seconds[i].backward;
    forward += seconds[i].forward, backward += seconds[i].backward;
  }
  const auto passes = static_cast<double>(parts.passes);
  for (auto& unit : parts.units) {
    unit.forward = share_of(unit.forward, forward) * parts.forward / passes;
    unit.backward = share_of(unit.backward, backward) * parts.backward / passes;
    unit.gather.messages = unit.sum.messages = 0;
  }
  for (size_t i = 0; i < visits.units.size(); ++i) {
    const auto& owned = shards.units[visits.units[i]];
    parts.units[i].gather = transfer_of(Kind::weights, owned, weight_bytes);
    parts.units[i].sum = transfer_of(Kind::gradients, owned, options.gradient_bytes);
  }
  parts.late_sums = {transfer_of(Kind::gradients, shards.rest, options.gradient_bytes)};
  parts.updated = {transfer_of(Kind::weights, shards.rest, sizeof(float))};
}

void shard_optimizer_state(StepParts& parts, const ParameterShards& shards) {
  parts.updated = {transfer_of(Kind::weights, shards.all, sizeof(float))};
}

void split_images(StepParts& parts, const ImageWork& work, double images,
                  const StepOptions& options) {
  const auto seconds = operation_seconds(work, images, options);
  double forward = 0, backward = 0;
  for (const auto& one : seconds) forward += one.forward, backward += one.backward;
  const auto microbatches = static_cast<double>(options.microbatches);
  const auto stop = [&](const RowsSent& sent, double passed, double pass) {
    return RowStop{transfer_of(sent, images / microbatches, options),
                   (pass + passed) / microbatches};
  };
  for (int64_t i = 0; i < options.microbatches; ++i) {
    const auto pass = static_cast<double>(i);
    double passed = 0;
    for (size_t k = 0; k < seconds.size(); passed += seconds[k++].forward)
      if (const auto& sent = work.operations[k].forward; sent.messages > 0)
        parts.forward_rows.push_back(stop(sent, share_of(passed, forward), pass));
    passed = 0;
    for (size_t k = seconds.size(); k-- > 0; passed += seconds[k].backward)
      if (const auto& sent = work.operations[k].backward; sent.messages > 0)
        parts.backward_rows.push_back(stop(sent, share_of(passed, backward), pass));
  }
}

}  // namespace composer
