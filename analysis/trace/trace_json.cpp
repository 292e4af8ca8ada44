#include "analysis/trace/trace_json.h"

#include <nlohmann/json.hpp>

namespace composer {
namespace {

using nlohmann::ordered_json;

/// An array with json(item) of each item.
template <class Items, class Json>
ordered_json array_of(const Items& items, const Json& json) {
  auto array = ordered_json::array();
  for (const auto& item : items) array.push_back(json(item));
  return array;
}

ordered_json json_of(const Statistics& numbers) {
  return {{"count", numbers.count},        {"mean", numbers.mean},
          {"std", numbers.deviation},      {"min", numbers.min},
          {"25%", numbers.quarter},        {"50%", numbers.median},
          {"75%", numbers.three_quarters}, {"max", numbers.max}};
}

ordered_json json_of(const TemporalBreakdown& times) {
  const auto percent = [&](int64_t ns) {
    return times.span_ns == 0 ? 0.0
                              : 100 * static_cast<double>(ns) / static_cast<double>(times.span_ns);
  };
  return {{"span_ns", times.span_ns},
          {"idle_ns", times.idle_ns},
          {"compute_ns", times.compute_ns},
          {"non_compute_ns", times.non_compute_ns},
          {"idle_percent", percent(times.idle_ns)},
          {"compute_percent", percent(times.compute_ns)},
          {"non_compute_percent", percent(times.non_compute_ns)}};
}

ordered_json json_of_types(const std::vector<int64_t>& times) {
  auto result = ordered_json::object();
  for (size_t flags = 1; flags < times.size(); ++flags)
    if (times[flags] != 0) result[type_combination(flags)] = times[flags];
  return result;
}

ordered_json json_of(const StreamIdle& idle) {
  return {{"stream", idle.stream},
          {"host_wait_ns", idle.host_wait_ns},
          {"kernel_wait_ns", idle.kernel_wait_ns},
          {"other_ns", idle.other_ns}};
}

ordered_json json_of(const KernelTime& kernel) {
  return {{"name", kernel.name},       {"type", name(kernel.type)},    {"calls", kernel.calls},
          {"sum_ns", kernel.sum_ns},   {"max_ns", kernel.max_ns},      {"min_ns", kernel.min_ns},
          {"mean_ns", kernel.mean_ns}, {"std_ns", kernel.deviation_ns}};
}

ordered_json json_of(const QueueSummary& queue) {
  return {{"stream", queue.stream},
          {"length", json_of(queue.length)},
          {"blocked_ns", queue.blocked_ns},
          {"blocked_share", queue.blocked_share}};
}

ordered_json json_of(const CopySummary& copy) {
  return {{"kind", copy.kind}, {"gb_per_second", json_of(copy.gb_per_second)}};
}

ordered_json json_of(const LaunchStatistics& launches) {
  return {{"call_ns", json_of(launches.call)},   {"work_ns", json_of(launches.work)},
          {"delay_ns", json_of(launches.delay)}, {"short_work", launches.short_work},
          {"slow_calls", launches.slow_calls},   {"late_starts", launches.late_starts}};
}

ordered_json json_of(const DeviceAnalysis& device) {
  const auto json = [](const auto& item) { return json_of(item); };
  return {{"temporal_breakdown", json_of(device.temporal)},
          {"idle_time", array_of(device.idle, json)},
          {"kernel_types", json_of_types(device.types.with_memory)},
          {"kernel_types_without_memory", json_of_types(device.types.without_memory)},
          {"kernels", array_of(device.kernels, json)},
          {"overlap", device.overlap ? ordered_json(*device.overlap) : ordered_json(nullptr)},
          {"queue_length", array_of(device.queues, json)},
          {"memory_bandwidth", array_of(device.copies, json)},
          {"launches", json_of(device.launches)}};
}

/// The name of a part: "forward", "algorithm mixup".
std::string label(const PartKey& key) {
  return std::string(name(key.part)) + (key.name.empty() ? "" : " " + key.name);
}

ordered_json json_of(const TracedStep& step) {
  // Labels are unique: emplace_back() saves a search for each.
  ordered_json::object_t parts;
  for (const auto& [key, ns] : step.parts) parts.emplace_back(label(key), ns);
  return {{"number", step.number}, {"total_ns", step.total_ns}, {"parts_ns", std::move(parts)}};
}

ordered_json json_of(const OperatorCost& cost) {
  ordered_json json{{"name", cost.name},
                    {"calls", cost.calls},
                    {"self_ns", cost.self_ns},
                    {"total_ns", cost.total_ns}};
  if (!cost.shapes.empty()) json["shapes"] = cost.shapes;
  return json;
}

ordered_json json_of(const ThreadUse& thread) {
  return {{"thread", thread.thread},
          {"events", thread.events},
          {"busy_ns", thread.busy_ns},
          {"idle_share", thread.idle_share}};
}

ordered_json json_of_host(const RankAnalysis& rank) {
  const auto json = [](const auto& item) { return json_of(item); };
  ordered_json result{{"steps", array_of(rank.steps.steps, json)}};
  if (!rank.steps.steps.empty()) {
    result["step_sum"] = json_of(rank.steps.sum);
    result["step_sum"].erase("number");
    result["coverage"] = rank.steps.coverage();
  }
  result["operator_self_ns"] = rank.operators.self_ns;
  result["operators"] = array_of(rank.operators.by_name, json);
  result["operators_by_shapes"] = array_of(rank.operators.by_shapes, json);
  result["threads"] = array_of(rank.threads, json);
  return result;
}

ordered_json json_of(const RankAnalysis& rank) {
  return {{"rank", rank.rank},
          {"file", rank.file},
          {"bytes", rank.bytes},
          {"events", rank.events},
          {"base_ns", rank.base_ns},
          {"truncated", rank.truncated},
          {"last_step_dropped", rank.last_step_dropped},
          {"warnings", rank.warnings},
          {"device", rank.device ? json_of(*rank.device) : ordered_json(nullptr)},
          {"host", json_of_host(rank)}};
}

ordered_json json_of(const DiffSide& side, const std::filesystem::path& file) {
  return {{"file", file.string()}, {"rank", *side.rank}, {"step", *side.step}};
}

}  // namespace

std::string type_combination(size_t flags) {
  std::string words;
  for (size_t i = 0; i < 3; ++i) {
    if ((flags & (size_t{1} << i)) == 0) continue;
    if (!words.empty()) words += " overlapping ";
    words += name(static_cast<KernelType>(i));
  }
  return words;
}

ordered_json json_of(const TraceAnalysis& analysis) {
  return {{"ranks", array_of(analysis.ranks, [](const auto& rank) { return json_of(rank); })},
          {"kernel_types", json_of_types(analysis.types.with_memory)},
          {"kernel_types_without_memory", json_of_types(analysis.types.without_memory)},
          {"left_out", analysis.left_out},
          {"warnings", analysis.warnings},
          {"advice", array_of(analysis.advice, [](const auto& advice) {
             return ordered_json{{"text", advice.text}, {"gain", advice.gain}};
           })}};
}

ordered_json json_of(const TraceDiff& diff) {
  const auto row_json = [](const DiffRow& row) {
    return ordered_json{{"name", row.name},
                        {"control_count", row.control_count},
                        {"test_count", row.test_count},
                        {"control_ns", row.control_ns},
                        {"test_ns", row.test_ns},
                        {"count_change", row.count_change()},
                        {"time_change_ns", row.time_change_ns()},
                        {"change", std::string(1, row.change())}};
  };
  return {{"control", json_of(diff.control, diff.control_file)},
          {"test", json_of(diff.test, diff.test_file)},
          {"warnings", diff.warnings},
          {"rows", array_of(diff.rows, row_json)}};
}

}  // namespace composer
