#include "scale/step_work.h"

#include <numeric>
#include <set>

#include "base/balanced.h"
#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "nn/network/model.h"
#include "nn/network/row_operations.h"
#include "nn/network/sharded_parameters.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

constexpr double first_bucket_bytes = 1 << 20;

using Held = SpatialParallel::Held;

/// `sums` all-reduces around a ring of `ranks`, one after another, of values per image and per
/// batch.
RowsSent all_reduced(int64_t ranks, double sums, double image_sums, double batch_sums) {
  const auto n = static_cast<double>(ranks);
  const double share = 2 * (n - 1) / n;
  return {.image_sums = share * image_sums,
          .batch_sums = share * batch_sums,
          .messages = sums * 2 * (n - 1)};
}

/// An all-gather of `numbers` values of each rank.
RowsSent gathered(int64_t ranks, double numbers) {
  const auto others = static_cast<double>(ranks - 1);
  return {.batch_sums = others * numbers, .messages = others};
}

RowWindow window_down(const Graph::Operation& operation) {
  if (const auto* const conv = std::get_if<Conv2dOptions>(&operation.options))
    return row_window(*conv);
  auto window = row_window(std::get<Pool2dOptions>(operation.options));
  window.cut_off = operation.kind == OperationKind::avg_pool2d;
  return window;
}

/// Follows SpatialParallel through the graph of one image, operation by operation: halo rows before
/// convolutions and pools and, in the backward pass, their gradients; statistics of channels and
/// sums of their gradients (synced_batch_norm); sums of pooled values and of group norms. Sums go
/// around a ring (ring_seconds). The last rank has the most rows (own_rows).
class SpatialPartition {
 public:
  /// `ranks`: ranks that share images. `trains`: false for an evaluation, whose batch norms send
  /// nothing.
  SpatialPartition(const Graph& graph, int64_t ranks, bool trains)
      : graph_(graph),
        ranks_(ranks),
        trains_(trains),
        known_(graph.values.size()),
        needs_gradient_(graph.values.size(), false) {
    known_[graph.input] = {graph.values[graph.input].shape.at(2), Held::image};
  }

  /// The part of an operation that the rank with most rows has.
  struct Part {
    double computed = 1;  ///< the rank's share of the arithmetic
    double kept = 1;      ///< the rank's share of the values kept for the backward pass
    double taken = 0;     ///< halo values of each image that the rank keeps as well
    RowsSent forward{}, backward{};
  };
  /// The part of the graph's next operation, whose cost is `cost`.
  Part next(const Graph::Operation& operation, const Cost& cost) {
    const auto input = input_of(operation), output = output_of(operation, input);
    bool trained = cost.trainable_parameters > 0;
    for (const auto& one : operation.inputs) trained = trained || (one && needs_gradient_[*one]);
    known_[operation.output] = output;
    needs_gradient_[operation.output] = trained;
    Part part;
    if (ranks_ == 1) return part;
    part.computed = largest_share(output);
    part.kept = largest_share(input);
    if (input.held != Held::rows) return part;

    const auto& shape = graph_.values[operation.inputs[0].value()].shape;
    switch (operation.kind) {
      case OperationKind::conv2d:
      case OperationKind::max_pool2d:
      case OperationKind::avg_pool2d:
        part.forward = exchange_before(operation, input.height);
        if (trained) part.taken = part.forward.values;
        if (needs_gradient_[*operation.inputs[0]]) part.backward = part.forward;
        break;
      case OperationKind::batch_norm: {
        const bool frozen = cost.parameters > 0 && cost.trainable_parameters == 0;
        if (frozen || !trains_) break;  // by its running statistics
        const auto channels = static_cast<double>(shape[1]);
        part.forward = gathered(ranks_, 2 * channels + 1);
        if (trained) part.backward = all_reduced(ranks_, 1, 0, 2 * channels);
        break;
      }
      case OperationKind::group_norm: {
        const auto groups =
            static_cast<double>(std::get<GroupNormOptions>(operation.options).groups);
        part.forward = all_reduced(ranks_, 2, 2 * groups, 0);
        if (trained) part.backward = part.forward;
        break;
      }
      case OperationKind::adaptive_avg_pool2d:
      case OperationKind::mean:
        part.forward = all_reduced(ranks_, 1, static_cast<double>(shape[1]), 0);
        if (trained) part.backward = part.forward;
        break;
      default:
        break;
    }
    return part;
  }

 private:
  using Known = SpatialParallel::Known;

  Known input_of(const Graph::Operation& operation) const {
    for (const auto& input : operation.inputs)
      if (input && known_[*input].held == Held::rows) return known_[*input];
    return operation.inputs.empty() ? Known{} : known_[operation.inputs[0].value()];
  }

  Known output_of(const Graph::Operation& operation, const Known& input) const {
    switch (operation.kind) {
      case OperationKind::conv2d:
      case OperationKind::max_pool2d:
      case OperationKind::avg_pool2d:
        return input.held == Held::whole
                   ? Known{}
                   : Known{graph_.values[operation.output].shape[2], Held::rows};
      case OperationKind::relu:
      case OperationKind::gelu:
      case OperationKind::sigmoid:
      case OperationKind::scale:
      case OperationKind::batch_norm:
      case OperationKind::group_norm:
      case OperationKind::add:
      case OperationKind::multiply:
      case OperationKind::cat:
        return input;
      default:
        return {};
    }
  }

  double largest_share(const Known& known) const {
    if (known.held != Held::rows) return 1;
    return static_cast<double>(own_rows(known.height, ranks_ - 1, ranks_).size()) /
           static_cast<double>(known.height);
  }

  RowsSent exchange_before(const Graph::Operation& operation, int64_t height) const {
    const auto rows = most_rows_exchanged(height, window_down(operation), ranks_);
    const auto& shape = graph_.values[operation.inputs[0].value()].shape;  // [1, C, H, W]
    if (rows == 0) return {};
    return {.values = static_cast<double>(rows * shape[1] * shape[3]), .messages = 1};
  }

  const Graph& graph_;
  int64_t ranks_;
  bool trains_;
  std::vector<Known> known_;          ///< per value of the graph
  std::vector<bool> needs_gradient_;  ///< per value of the graph
};

/// The factor by which memory bandwidth makes a pass longer than its FLOPs alone; at least 1.
double slowed_by_memory(const ImageWork& work, const StepOptions& options) {
  const double arithmetic = work.flops_step / options.flops_per_s;
  const double memory = work.activation_values * static_cast<double>(options.value_bytes) *
                        memory_passes / options.memory_bytes_per_s;
  return arithmetic > 0 ? std::max(1.0, memory / arithmetic) : 1;
}

/// The unit of the slot at `path` or of the nearest slot around it.
std::optional<size_t> unit_of(std::string path, const std::map<std::string, size_t>& units) {
  for (;;) {
    if (const auto found = units.find(path); found != units.end()) return found->second;
    const auto dot = path.rfind('.');
    if (dot == std::string::npos) return {};
    path.resize(dot);
  }
}

double kernels_seconds(double operations, double kernels, const StepOptions& options) {
  return operations * kernels * kernel_seconds * static_cast<double>(options.microbatches);
}

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

/// The passes of step_parts(), operation by operation.
std::vector<OperationSeconds> operation_seconds(const ImageWork& work, double images,
                                                const StepOptions& options) {
  const double slower = slowed_by_memory(work, options) * images / options.flops_per_s;
  const double forward = kernels_seconds(1, 1, options),
               backward = kernels_seconds(1, kernels_of_operation - 1, options);
  std::vector<OperationSeconds> seconds;
  for (const auto& operation : work.operations)
    seconds.push_back(
        {operation.flops_forward * slower + forward, operation.flops_backward * slower + backward});
  return seconds;
}

}  // namespace

double ImageWork::gradient_elements() const {
  return std::accumulate(operations.begin(), operations.end(), 0.0,
                         [](double sum, const Operation& operation) {
                           return sum + static_cast<double>(operation.gradient_elements);
                         });
}

ImageWork work_of(const Graph& graph, const NetworkCost& cost, ImageSize size,
                  const std::map<std::string, size_t>& units, int64_t spatial_ranks, bool trains) {
  ImageWork work{size, 0, 0, 0, {}};
  SpatialPartition division(graph, spatial_ranks, trains);
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& one = cost.operations[i];
    const auto part = division.next(graph.operations[i], one);
    const auto& added = work.operations.emplace_back(ImageWork::Operation{
        .flops_backward = static_cast<double>(one.flops_step - one.flops_forward) * part.computed,
        .gradient_elements = one.trainable_parameters,
        .flops_forward = static_cast<double>(one.flops_forward) * part.computed,
        .unit = unit_of(graph.operations[i].layer, units),
        .forward = part.forward,
        .backward = part.backward});
    work.flops_forward += added.flops_forward;
    work.flops_step += added.flops_forward + added.flops_backward;
    work.activation_values +=
        static_cast<double>(one.activation_bytes) / sizeof(float) * part.kept + part.taken;
  }
  return work;
}

double StepParts::bytes() const {
  return std::accumulate(buckets.begin(), buckets.end(), 0.0,
                         [](double sum, const Bucket& bucket) { return sum + bucket.bytes; });
}

std::vector<Bucket> buckets_of(const ImageWork& work, double images, const StepOptions& options) {
  const auto seconds = operation_seconds(work, images, options);
  std::vector<Bucket> buckets;
  const auto microbatches = static_cast<double>(options.microbatches);
  double passed = 0, elements = 0;
  for (size_t i = work.operations.size(); i-- > 0;) {
    passed += seconds[i].backward;
    elements += static_cast<double>(work.operations[i].gradient_elements);
    const double full =
        buckets.empty() ? std::min(first_bucket_bytes, options.bucket_bytes) : options.bucket_bytes;
    if (elements == 0 || (elements * sizeof(float) < full && i > 0)) continue;
    buckets.push_back({elements * static_cast<double>(options.gradient_bytes), passed});
    elements = 0;
  }
  for (auto& bucket : buckets)
    bucket.ready = passed > 0 ? 1 - (1 - bucket.ready / passed) / microbatches : 1;
  return buckets;
}

StepParts step_parts(const ImageWork& work, double images, const StepOptions& options) {
  const double slower = slowed_by_memory(work, options) * images / options.flops_per_s;
  const auto operations = static_cast<double>(work.operations.size());
  StepParts parts;
  parts.forward = work.flops_forward * slower + kernels_seconds(operations, 1, options);
  parts.backward = (work.flops_step - work.flops_forward) * slower +
                   kernels_seconds(operations, kernels_of_operation - 1, options);
  parts.buckets = buckets_of(work, images, options);
  return parts;
}

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
