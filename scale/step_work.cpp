#include "scale/step_work.h"

#include <algorithm>
#include <numeric>

namespace composer {
namespace {

constexpr double first_bucket_bytes = 1 << 20;

/// How many times longer than by its FLOPs alone a pass takes, where the memory is the limit.
double slowed_by_memory(const ImageWork& work, const StepOptions& options) {
  const double arithmetic = work.flops_step / options.flops_per_s;
  const double memory = work.activation_values * static_cast<double>(options.value_bytes) *
                        memory_passes / options.memory_bytes_per_s;
  return arithmetic > 0 ? std::max(1.0, memory / arithmetic) : 1;
}

/// Of the slot at `path`, or of one that it is in.
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
  RowDivision division(graph, spatial_ranks, trains);
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

}  // namespace composer
