#include "cli/operator_costs.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace composer {
namespace {

using Row = std::pair<std::string, RangeTotal>;

std::string readable(std::string name) {
  const std::string engine = "autograd::engine::evaluate_function: ";
  const std::string of_type = "torch::autograd::CppNode<", nameless = "(anonymous namespace)::";
  if (name.starts_with(engine)) return "autograd: " + readable(name.substr(engine.size()));
  if (name.starts_with(of_type) && name.ends_with('>'))
    name = name.substr(of_type.size(), name.size() - of_type.size() - 1) + " backward";
  for (size_t at; (at = name.find(nameless)) != std::string::npos;) name.erase(at, nameless.size());
  if (const std::string library = "torch::autograd::"; name.starts_with(library))
    name.erase(0, library.size());
  return name;
}

std::vector<Row> costliest_first(const RangeTotals& totals, double RangeTotal::*by) {
  std::vector<Row> rows(totals.begin(), totals.end());
  std::ranges::stable_sort(
      rows, [by](const Row& a, const Row& b) { return a.second.*by > b.second.*by; });
  return rows;
}

/// Operators below this share of the time are summed up in one row.
constexpr double least_share = 0.001;

double outside_operators(const OperatorCosts& costs) {
  double inside = 0;
  for (const auto& [name, total] : costs.operators) inside += total.self_seconds;
  return 1 - inside / costs.seconds;
}

}  // namespace

RangeTotals with_readable_names(const RangeTotals& totals) {
  RangeTotals readable_ones;
  for (const auto& [name, total] : totals) {
    auto& sum = readable_ones[readable(name)];
    sum.calls += total.calls;
    sum.seconds += total.seconds, sum.self_seconds += total.self_seconds;
  }
  return readable_ones;
}

nlohmann::ordered_json json_of(const OperatorCosts& costs) {
  const auto steps = static_cast<double>(costs.steps);
  auto operators = nlohmann::ordered_json::array(), ranges = nlohmann::ordered_json::array();
  for (const auto& [name, total] : costliest_first(costs.operators, &RangeTotal::self_seconds))
    operators.push_back({{"name", name},
                         {"calls", static_cast<double>(total.calls) / steps},
                         {"self_ms", total.self_seconds * 1e3 / steps},
                         {"share", total.self_seconds / costs.seconds}});
  for (const auto& [name, total] : costliest_first(costs.ranges, &RangeTotal::seconds))
    ranges.push_back({{"name", name},
                      {"calls", static_cast<double>(total.calls) / steps},
                      {"ms", total.seconds * 1e3 / steps},
                      {"self_ms", total.self_seconds * 1e3 / steps},
                      {"share", total.seconds / costs.seconds}});
  return {{"operators", operators},
          {"outside_operators", outside_operators(costs)},
          {"ranges", ranges},
          {"conversions", static_cast<double>(costs.conversions) / steps}};
}

void print_operator_costs(const OperatorCosts& costs, std::ostream& out) {
  const auto steps = static_cast<double>(costs.steps);
  size_t width = 0;
  for (const auto* totals : {&costs.operators, &costs.ranges})
    for (const auto& [name, total] : *totals) width = std::max(width, name.size());
  const auto head = [&](const char* of, const char* time) {
    out << '\n'
        << std::left << std::setw(static_cast<int>(width)) << of << std::right << std::setw(12)
        << "calls/step" << std::setw(12) << time << std::setw(9) << "share" << '\n';
  };
  const auto line = [&](const std::string& name, int64_t calls, double seconds) {
    out << std::left << std::setw(static_cast<int>(width)) << name << std::right << std::fixed
        << std::setprecision(1) << std::setw(12) << static_cast<double>(calls) / steps
        << std::setprecision(3) << std::setw(12) << seconds * 1e3 / steps << std::setprecision(1)
        << std::setw(7) << 100 * seconds / costs.seconds << " %\n";
  };
  head("range", "ms/step");
  for (const auto& [name, total] : costliest_first(costs.ranges, &RangeTotal::seconds))
    line(name, total.calls, total.seconds);
  head("operator", "self ms");
  RangeTotal others;
  int64_t other_names = 0;
  for (const auto& [name, total] : costliest_first(costs.operators, &RangeTotal::self_seconds)) {
    if (total.self_seconds >= least_share * costs.seconds) {
      line(name, total.calls, total.self_seconds);
      continue;
    }
    ++other_names;
    others.calls += total.calls, others.self_seconds += total.self_seconds;
  }
  if (other_names > 0)
    line(std::to_string(other_names) + " others", others.calls, others.self_seconds);
  line("outside of operators", costs.steps, outside_operators(costs) * costs.seconds);
  out << "\nconversions of type or layout: " << std::setprecision(1)
      << static_cast<double>(costs.conversions) / steps << " a step\n";
}

}  // namespace composer
