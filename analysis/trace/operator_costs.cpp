#include "analysis/trace/operator_costs.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace composer {
namespace {

struct OpenOperator {
  int64_t end_ns = 0;
  uint64_t key = 0;
};

/// Costs by name and shapes, as numbers of the trace's words.
class CostTable {
 public:
  /// The operators of one thread, as they begin.
  void add(const TraceEvent& event) {
    while (!open_.empty() && open_.back().end_ns <= event.start_ns) open_.pop_back();
    const uint64_t key = (uint64_t{event.name} << 32) | event.detail;
    auto& cost = costs_[key];
    ++cost.calls;
    cost.self_ns += event.duration_ns;
    cost.total_ns += event.duration_ns;
    if (!open_.empty()) costs_[open_.back().key].self_ns -= event.duration_ns;
    open_.push_back({event.end_ns(), key});
  }

  void end_thread() { open_.clear(); }

  std::vector<OperatorCost> rows(const NameTable& names) const {
    std::vector<OperatorCost> rows;
    for (const auto& [key, cost] : costs_) {
      auto& row = rows.emplace_back(cost);
      const auto shapes = static_cast<uint32_t>(key);
      row.name = names[static_cast<uint32_t>(key >> 32)];
      if (shapes != no_detail) row.shapes = names[shapes];
    }
    return rows;
  }

 private:
  std::unordered_map<uint64_t, OperatorCost> costs_;
  std::vector<OpenOperator> open_;
};

void sort_by_self_time(std::vector<OperatorCost>& rows) {
  std::ranges::sort(rows, [](const auto& one, const auto& other) {
    if (one.self_ns != other.self_ns) return one.self_ns > other.self_ns;
    return one.name != other.name ? one.name < other.name : one.shapes < other.shapes;
  });
}

std::vector<OperatorCost> summed_by_name(const std::vector<OperatorCost>& rows) {
  std::unordered_map<std::string_view, OperatorCost> sums;
  for (const auto& row : rows) {
    auto& sum = sums[row.name];
    sum.name = row.name;
    sum.calls += row.calls;
    sum.self_ns += row.self_ns;
    sum.total_ns += row.total_ns;
  }
  std::vector<OperatorCost> result;
  for (auto& [name, sum] : sums) result.push_back(std::move(sum));
  return result;
}

}  // namespace

int64_t OperatorCosts::self_of(std::initializer_list<std::string_view> parts) const {
  int64_t ns = 0;
  for (const auto& row : by_name)
    if (std::ranges::any_of(parts,
                            [&](auto part) { return row.name.find(part) != std::string::npos; }))
      ns += row.self_ns;
  return ns;
}

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes,
                             const Window& window) {
  CostTable table;
  for (const auto& lane : lanes) {
    for (const uint32_t number : lane) {
      const auto& event = trace.events[number];
      if (event.category == EventCategory::operator_ && event.start_ns >= window.start_ns &&
          event.start_ns < window.end_ns)
        table.add(event);
    }
    table.end_thread();
  }
  OperatorCosts costs;
  costs.by_shapes = table.rows(trace.names);
  costs.by_name = summed_by_name(costs.by_shapes);
  sort_by_self_time(costs.by_shapes);
  sort_by_self_time(costs.by_name);
  for (const auto& row : costs.by_name) costs.self_ns += row.self_ns;
  return costs;
}

}  // namespace composer
