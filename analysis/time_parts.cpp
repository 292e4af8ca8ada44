#include "analysis/time_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/figure_text.h"
#include "analysis/markup.h"

namespace composer {
namespace {

using Kind = TimePart::Kind;

const std::string prefix = "time/", of_algorithms = "algorithms/", of_callbacks = "callbacks/";

TimePart part_named(const std::string& name) {
  static const std::map<std::string, TimePart> known{
      {"dataloader", {Kind::waiting, "waiting for data", 0}},
      {"collate", {Kind::waiting, "waiting for data", 0}},
      {"forward", {Kind::forward, "forward", 0}},
      {"backward", {Kind::backward, "backward", 0}},
      {"gradient sum", {Kind::communication, "summing gradients", 0}},
      {"replay", {Kind::forward, "recorded step", 0}},
      {"optimizer", {Kind::optimizer, "optimizer", 0}},
      {"evaluation", {Kind::evaluation, "evaluation", 0}},
      {"checkpoint", {Kind::checkpoint, "checkpoints", 0}},
      {"other", {Kind::other, "the rest", 0}}};
  if (const auto found = known.find(name); found != known.end()) return found->second;
  if (name.starts_with(of_algorithms))
    return {Kind::algorithm, name.substr(of_algorithms.size()), 0};
  if (name.starts_with(of_callbacks)) return {Kind::other, "callbacks", 0};
  return {Kind::other, name, 0};
}

double total_of(const std::vector<TimePart>& parts) {
  double total = 0;
  for (const auto& part : parts) total += part.seconds;
  return total;
}

std::string kind_class(Kind kind) { return "t" + std::to_string(static_cast<int>(kind)); }

/// A horizontal bar of the parts' shares.
std::string share_bar(const std::vector<TimePart>& parts) {
  const double total = total_of(parts);
  std::string drawn;
  double begin = 0;
  for (const auto& part : parts) {
    const double share = part.seconds / total;
    if (share * 1000 >= 0.5)
      drawn += element("rect",
                       {{"class", kind_class(part.kind)},
                        {"x", length_text(begin * 1000)},
                        {"y", "0"},
                        {"width", length_text(std::max(share * 1000 - 1.5, 0.5))},
                        {"height", "30"}},
                       element("title", {},
                               escaped(part.name + ": " + duration_figure(part.seconds) + ", " +
                                       percent_figure(share))));
    begin += share;
  }
  return element("svg",
                 {{"class", "shares"},
                  {"viewBox", "0 0 1000 30"},
                  {"preserveAspectRatio", "none"},
                  {"role", "img"},
                  {"aria-label", "shares of the time"}},
                 drawn);
}

using PartsOfRuns = std::vector<std::vector<TimePart>>;

/// Adds to the rest each part of the kind `other` that is less than 0.5 % of every run.
PartsOfRuns without_trifles(PartsOfRuns runs) {
  constexpr double trifle = 0.005;
  std::set<std::string> kept;
  for (const auto& parts : runs)
    for (const auto& part : parts)
      if (part.kind != Kind::other || part.seconds >= trifle * total_of(parts))
        kept.insert(part.name);
  for (auto& parts : runs) {
    TimePart rest = part_named("other");
    for (const auto& part : parts)
      if (part.name == rest.name || !kept.contains(part.name)) rest.seconds += part.seconds;
    std::erase_if(parts, [&](const auto& part) {
      return part.name == rest.name || !kept.contains(part.name);
    });
    if (rest.seconds > 0) parts.push_back(rest);
  }
  return runs;
}

/// Name and kind of every part, in the order of a step.
std::vector<TimePart> union_of(const PartsOfRuns& runs) {
  std::vector<TimePart> all;
  for (const auto& parts : runs)
    for (const auto& part : parts)
      if (std::ranges::find(all, part.name, &TimePart::name) == all.end()) all.push_back(part);
  const auto rest = part_named("other").name;
  std::ranges::stable_sort(
      all, {}, [&](const auto& part) { return std::pair(part.kind, part.name == rest); });
  return all;
}

std::string part_cells(const std::vector<TimePart>& parts, const std::string& name) {
  const auto found = std::ranges::find(parts, name, &TimePart::name);
  if (found == parts.end()) return element("td", {}, "") + element("td", {}, "");
  return number_cell(duration_figure(found->seconds)) +
         element("td", {{"class", "number faded"}},
                 percent_figure(found->seconds / total_of(parts)));
}

std::string parts_table(const std::vector<std::string>& runs, const PartsOfRuns& of_runs) {
  std::string head = element("th", {}, "");
  for (const auto& run : runs)
    head +=
        element("th", {{"colspan", "2"}, {"class", "number"}}, runs.size() > 1 ? escaped(run) : "");
  std::string rows;
  if (runs.size() > 1) rows = element("thead", {}, element("tr", {}, head));
  for (const auto& part : union_of(of_runs)) {
    std::string cells = row_heading(element("i", {{"class", "key " + kind_class(part.kind)}}, "") +
                                    escaped(part.name));
    for (const auto& parts : of_runs) cells += part_cells(parts, part.name);
    rows += element("tr", {}, cells);
  }
  std::string totals = row_heading("total");
  for (const auto& parts : of_runs)
    totals += number_cell(duration_figure(total_of(parts))) + element("td", {}, "");
  rows += element("tr", {{"class", "total"}}, totals);
  return element("div", {{"class", "wide narrow"}}, element("table", {{"class", "parts"}}, rows));
}

std::string straggler_text(const Run& run) {
  std::string text;
  for (const auto& one : stragglers_of(run))
    text += element("li", {},
                    "rank " + std::to_string(one.rank) + " was the slowest " +
                        percent_figure(one.share) + " of the time, by " +
                        duration_figure(one.excess) + " a batch over the mean");
  if (text.empty()) return "";
  return element("h3", {}, "Which rank the others waited for") + element("ul", {}, text);
}

nlohmann::ordered_json parts_json(const std::vector<std::string>& runs,
                                  const PartsOfRuns& of_runs) {
  auto json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    auto parts = nlohmann::ordered_json::object();
    for (const auto& part : of_runs[i]) parts[part.name] = part.seconds;
    json.push_back({{"name", runs[i]}, {"seconds", parts}});
  }
  return json;
}

}  // namespace

std::vector<TimePart> time_parts_of(const Run& run) {
  std::map<std::string, double> sums;
  for (const auto& entry : run.log)
    for (auto value = entry.values.lower_bound(prefix);
         value != entry.values.end() && value->first.starts_with(prefix); ++value)
      if (value->first != "time/wait_fraction")
        sums[value->first.substr(prefix.size())] += value->second;
  std::vector<TimePart> parts;
  for (const auto& [name, seconds] : sums) {
    auto part = part_named(name);
    const auto same = std::ranges::find(parts, part.name, &TimePart::name);
    if (same == parts.end()) {
      part.seconds = seconds;
      parts.push_back(std::move(part));
    } else {
      same->seconds += seconds;
    }
  }
  std::ranges::stable_sort(parts, {}, &TimePart::kind);
  return parts;
}

std::vector<Straggler> stragglers_of(const Run& run) {
  std::map<int64_t, Straggler> ranks;
  double all = 0;
  for (const auto& entry : run.log) {
    const auto slowest = entry.values.find("ranks/slowest");
    const auto excess = entry.values.find("ranks/slowest_excess");
    if (slowest == entry.values.end() || excess == entry.values.end()) continue;
    const auto rank = static_cast<int64_t>(slowest->second);
    auto& one = ranks.try_emplace(rank, Straggler{rank, 0, 0}).first->second;
    one.share += 1, one.excess += excess->second, all += 1;
  }
  std::vector<Straggler> list;
  for (const auto& [rank, one] : ranks)
    list.push_back({rank, one.share / all, one.excess / one.share});
  std::ranges::stable_sort(list, std::ranges::greater(), &Straggler::share);
  return list;
}

std::string time_section(const std::vector<Run>& all) {
  PartsOfRuns of_runs;
  std::vector<std::string> runs;
  std::string stragglers;
  for (const auto& run : all) {
    stragglers += straggler_text(run);
    auto parts = time_parts_of(run);
    if (total_of(parts) <= 0) continue;
    of_runs.push_back(std::move(parts)), runs.push_back(run.name);
  }
  const auto shown = without_trifles(of_runs);
  std::string bars;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto bar = share_bar(shown[i]);
    if (all.size() > 1)
      bar = element("span", {}, escaped(runs[i])) + bar +
            element("small", {}, duration_figure(total_of(shown[i])));
    bars += element("div", {{"class", "bar"}}, bar);
  }
  if (bars.empty()) return stragglers;
  return bars + parts_table(runs, shown) + stragglers +
         data_element("id", "time", parts_json(runs, of_runs));
}

}  // namespace composer
