#include "analysis/trace/operator_costs.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace composer {
namespace {

struct Cost {
  int64_t calls = 0, self_ns = 0, total_ns = 0;

  Cost& operator+=(const Cost& other) {
    calls += other.calls, self_ns += other.self_ns, total_ns += other.total_ns;
    return *this;
  }
};

/// A name and shapes (or no_detail), as numbers of the trace's words.
uint64_t key_of(uint32_t name, uint32_t shapes) { return (uint64_t{name} << 32) | shapes; }
uint32_t name_in(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
uint32_t shapes_in(uint64_t key) { return static_cast<uint32_t>(key); }

using CostTable = std::unordered_map<uint64_t, Cost>;

struct OpenOperator {
  int64_t end_ns = 0;
  uint64_t key = 0;
};

/// Adds the operators of one thread, as they begin.
class ThreadCosts {
 public:
  explicit ThreadCosts(CostTable& costs) : costs_(costs) {}

  void add(const TraceEvent& event) {
    while (!open_.empty() && open_.back().end_ns <= event.start_ns) open_.pop_back();
    const uint64_t key = key_of(event.name, event.detail);
    const int64_t duration_ns = std::max<int64_t>(0, event.duration_ns);  // rounding as HTA does
    costs_[key] += {1, duration_ns, duration_ns};
    if (duration_ns == 0) return;
    if (!open_.empty())
      costs_[open_.back().key].self_ns -=
          std::min(event.end_ns(), open_.back().end_ns) - event.start_ns;
    open_.push_back({event.end_ns(), key});
  }

 private:
  CostTable& costs_;
  std::vector<OpenOperator> open_;
};

/// Those with most self time; of the same, by name and shapes.
std::vector<OperatorCost> costliest(const CostTable& costs, const NameTable& names) {
  using Entry = CostTable::value_type;
  const auto shapes = [&](const Entry& entry) {
    const auto number = shapes_in(entry.first);
    return number == no_detail ? std::string_view() : names[number];
  };
  const auto place = [&](const Entry* entry) {
    return std::tuple(-entry->second.self_ns, names[name_in(entry->first)], shapes(*entry));
  };
  std::vector<const Entry*> entries;
  entries.reserve(costs.size());
  for (const auto& entry : costs) entries.push_back(&entry);
  const size_t listed = std::min(entries.size(), OperatorCosts::most_rows);
  std::ranges::partial_sort(entries, entries.begin() + static_cast<std::ptrdiff_t>(listed), {},
                            place);
  std::vector<OperatorCost> rows;
  for (size_t i = 0; i < listed; ++i) {
    const auto& [key, cost] = *entries[i];
    rows.push_back({std::string(names[name_in(key)]), std::string(shapes(*entries[i])), cost.calls,
                    cost.self_ns, cost.total_ns});
  }
  return rows;
}

CostTable summed_by_name(const CostTable& costs) {
  CostTable sums;
  for (const auto& [key, cost] : costs) sums[key_of(name_in(key), no_detail)] += cost;
  return sums;
}

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](auto part) { return name.find(part) != std::string_view::npos; });
}

void add_to_kinds(std::string_view name, const Cost& cost, OperatorCosts& costs) {
  costs.calls += cost.calls;
  costs.self_ns += cost.self_ns;
  if (contains_any(name, {"aten::copy_", "aten::contiguous", "aten::_to_copy", "aten::clone"}))
    costs.copies_ns += cost.self_ns;
  if (contains_any(name, {"convolution", "mkldnn", "conv2d"}))
    costs.convolutions_ns += cost.self_ns;
  if (contains_any(name, {"batch_norm", "relu", "threshold_backward", "clamp_min", "aten::add",
                          "aten::mul"}))
    costs.pointwise_ns += cost.self_ns;
}

}  // namespace

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes,
                             const Window& window) {
  CostTable by_shapes;
  for (const auto& lane : lanes) {
    ThreadCosts thread(by_shapes);
    for (const uint32_t number : lane) {
      const auto& event = trace.events[number];
      if (event.category == EventCategory::operator_ && event.start_ns >= window.start_ns &&
          event.start_ns < window.end_ns)
        thread.add(event);
    }
  }
  OperatorCosts costs;
  costs.by_shapes = costliest(by_shapes, trace.names);
  const auto by_name = summed_by_name(by_shapes);
  costs.by_name = costliest(by_name, trace.names);
  for (const auto& [key, cost] : by_name) add_to_kinds(trace.names[name_in(key)], cost, costs);
  return costs;
}

}  // namespace composer
