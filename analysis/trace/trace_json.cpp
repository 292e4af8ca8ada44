#include "analysis/trace/trace_json.h"

#include <nlohmann/json.hpp>

namespace composer {
namespace {

using nlohmann::ordered_json;

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

ordered_json json_of(const std::vector<StreamIdle>& streams) {
  auto result = ordered_json::array();
  for (const auto& idle : streams)
    result.push_back({{"stream", idle.stream},
                      {"host_wait_ns", idle.host_wait_ns},
                      {"kernel_wait_ns", idle.kernel_wait_ns},
                      {"other_ns", idle.other_ns}});
  return result;
}

ordered_json json_of(const std::vector<KernelTime>& kernels) {
  auto result = ordered_json::array();
  for (const auto& kernel : kernels)
    result.push_back({{"name", kernel.name},
                      {"type", name(kernel.type)},
                      {"calls", kernel.calls},
                      {"sum_ns", kernel.sum_ns},
                      {"max_ns", kernel.max_ns},
                      {"min_ns", kernel.min_ns},
                      {"mean_ns", kernel.mean_ns},
                      {"std_ns", kernel.deviation_ns}});
  return result;
}

ordered_json json_of(const LaunchStatistics& launches) {
  return {{"call_ns", json_of(launches.call)},   {"work_ns", json_of(launches.work)},
          {"delay_ns", json_of(launches.delay)}, {"short_work", launches.short_work},
          {"slow_calls", launches.slow_calls},   {"late_starts", launches.late_starts}};
}

ordered_json json_of(const DeviceAnalysis& device) {
  ordered_json result;
  result["temporal_breakdown"] = json_of(device.temporal);
  result["idle_time"] = json_of(device.idle);
  result["kernel_types"] = json_of_types(device.types.with_memory);
  result["kernel_types_without_memory"] = json_of_types(device.types.without_memory);
  result["kernels"] = json_of(device.kernels);
  result["overlap"] = device.overlap ? ordered_json(*device.overlap) : ordered_json(nullptr);
  result["queue_length"] = ordered_json::array();
  for (const auto& queue : device.queues)
    result["queue_length"].push_back({{"stream", queue.stream},
                                      {"length", json_of(queue.length)},
                                      {"blocked_ns", queue.blocked_ns},
                                      {"blocked_share", queue.blocked_share}});
  result["memory_bandwidth"] = ordered_json::array();
  for (const auto& copy : device.copies)
    result["memory_bandwidth"].push_back(
        {{"kind", copy.kind}, {"gb_per_second", json_of(copy.gb_per_second)}});
  result["launches"] = json_of(device.launches);
  return result;
}

ordered_json json_of(const TracedStep& step) {
  // Labels are unique; looking for each would make this quadratic.
  ordered_json::object_t parts;
  for (const auto& [key, ns] : step.parts) parts.emplace_back(label(key), ns);
  return {{"number", step.number}, {"total_ns", step.total_ns}, {"parts_ns", std::move(parts)}};
}

ordered_json json_of(const std::vector<OperatorCost>& operators) {
  auto result = ordered_json::array();
  for (const auto& each : operators) {
    ordered_json row{{"name", each.name},
                     {"calls", each.calls},
                     {"self_ns", each.self_ns},
                     {"total_ns", each.total_ns}};
    if (!each.shapes.empty()) row["shapes"] = each.shapes;
    result.push_back(std::move(row));
  }
  return result;
}

ordered_json json_of_host(const RankAnalysis& rank) {
  ordered_json result;
  result["steps"] = ordered_json::array();
  for (const auto& step : rank.steps.steps) result["steps"].push_back(json_of(step));
  if (!rank.steps.steps.empty()) {
    result["step_sum"] = json_of(rank.steps.sum);
    result["step_sum"].erase("number");
    result["coverage"] = rank.steps.coverage();
  }
  result["operator_self_ns"] = rank.operators.self_ns;
  result["operators"] = json_of(rank.operators.by_name);
  result["operators_by_shapes"] = json_of(rank.operators.by_shapes);
  result["threads"] = ordered_json::array();
  for (const auto& thread : rank.threads)
    result["threads"].push_back({{"thread", thread.thread},
                                 {"events", thread.events},
                                 {"busy_ns", thread.busy_ns},
                                 {"idle_share", thread.idle_share}});
  return result;
}

ordered_json json_of(const RankAnalysis& rank) {
  ordered_json result{{"rank", rank.rank},
                      {"file", rank.file},
                      {"bytes", rank.bytes},
                      {"events", rank.events},
                      {"base_ns", rank.base_ns},
                      {"truncated", rank.truncated},
                      {"last_step_dropped", rank.last_step_dropped},
                      {"warnings", rank.warnings}};
  result["device"] = rank.device ? json_of(*rank.device) : ordered_json(nullptr);
  result["host"] = json_of_host(rank);
  return result;
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

std::string label(const PartKey& key) {
  return std::string(name(key.part)) + (key.name.empty() ? "" : " " + key.name);
}

ordered_json json_of(const TraceAnalysis& analysis) {
  ordered_json result;
  result["ranks"] = ordered_json::array();
  for (const auto& rank : analysis.ranks) result["ranks"].push_back(json_of(rank));
  result["kernel_types"] = json_of_types(analysis.types.with_memory);
  result["kernel_types_without_memory"] = json_of_types(analysis.types.without_memory);
  result["left_out"] = analysis.left_out;
  result["warnings"] = analysis.warnings;
  result["advice"] = ordered_json::array();
  for (const auto& [text, gain] : analysis.advice)
    result["advice"].push_back({{"text", text}, {"gain", gain}});
  return result;
}

ordered_json json_of(const TraceDiff& diff) {
  ordered_json result{{"control", json_of(diff.control, diff.control_file)},
                      {"test", json_of(diff.test, diff.test_file)},
                      {"warnings", diff.warnings}};
  result["rows"] = ordered_json::array();
  for (const auto& row : diff.rows)
    result["rows"].push_back({{"name", row.name},
                              {"control_count", row.control_count},
                              {"test_count", row.test_count},
                              {"control_ns", row.control_ns},
                              {"test_ns", row.test_ns},
                              {"count_change", row.count_change()},
                              {"time_change_ns", row.time_change_ns()},
                              {"change", std::string(1, row.change())}});
  return result;
}

}  // namespace composer
