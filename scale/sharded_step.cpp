#include "scale/sharded_step.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace composer {
namespace {

using Kind = Transfer::Kind;

/// One after another the units that a forward pass enters, a unit as often as it does.
struct Visits {
  std::vector<size_t> units;
  /// Of each operation, those that its time counts for.
  std::vector<size_t> forward, backward;
};

Visits visits_of(const ImageWork& work) {
  Visits visits;
  std::optional<size_t> before;  // the unit of the last operation
  for (const auto& operation : work.operations) {
    if (operation.unit && operation.unit != before) visits.units.push_back(*operation.unit);
    const size_t count = visits.units.size(), last = std::max<size_t>(count, 1) - 1;
    visits.forward.push_back(last);
    visits.backward.push_back(operation.unit ? last : count);
    before = operation.unit;
  }
  for (auto& visit : visits.backward)  // nothing comes after the last one
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

void divide_weights(StepParts& parts, const ImageWork& work, double images,
                    const StepOptions& options, const WeightShares& shares, int64_t weight_bytes) {
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
    const auto& owned = shares.units[visits.units[i]];
    parts.units[i].gather = transfer_of(Kind::weights, owned, weight_bytes);
    parts.units[i].sum = transfer_of(Kind::gradients, owned, options.gradient_bytes);
  }
  parts.late_sums = {transfer_of(Kind::gradients, shares.rest, options.gradient_bytes)};
  parts.updated = {transfer_of(Kind::weights, shares.rest, sizeof(float))};
}

void divide_state(StepParts& parts, const WeightShares& shares) {
  parts.updated = {transfer_of(Kind::weights, shares.all, sizeof(float))};
}

void divide_images(StepParts& parts, const ImageWork& work, double images,
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
