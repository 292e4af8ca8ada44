#include "analysis/headline.h"

#include <algorithm>
#include <cmath>

#include "analysis/comparison.h"
#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "analysis/metric_text.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

std::string status_class(const std::string& status) {
  static const std::vector<std::string> known{"completed", "interrupted", "failed", "going on"};
  auto name = std::ranges::find(known, status) != known.end() ? status : std::string("killed");
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string card(const std::string& label, const std::string& value, const std::string& note = "") {
  return element("div", {{"class", "card"}},
                 element("span", {{"class", "label"}}, label) + element("strong", {}, value) +
                     (note.empty() ? "" : element("small", {}, escaped(note))));
}

/// A metric's last value, and its best where that was another one.
std::string metric_card(const RunOutcome& outcome, const std::string& metric) {
  const auto found = outcome.metrics.find(metric);
  if (found == outcome.metrics.end()) return "";
  const auto& [last, best, batch] = found->second;
  const auto text = [&](double value) {
    return is_share(metric) ? percent_figure(value) : figure(value);
  };
  const bool note = best && *best != last && !std::isnan(*best);
  return card(metric_label(metric), text(last),
              note ? "best " + text(*best) + " at step " + count_figure(batch) : "");
}

/// What all runs tell alike; empty where one differs.
std::string shared_line(const std::vector<Run>& runs, const std::string& key) {
  const auto first = runs[0].told(key);
  const bool same =
      std::ranges::all_of(runs, [&](const auto& run) { return run.told(key) == first; });
  return same ? with_counts(first) : "";
}

/// "2026-11-22 21:31" of a time of day with seconds; the time alone on the day of `other`.
std::string minute_of(const std::string& time, const std::string& other = "") {
  constexpr size_t date = 10, minute = 16;
  if (time.size() < minute) return time;
  return time.substr(0, date) == other.substr(0, date) ? time.substr(date + 1, minute - date - 1)
                                                       : time.substr(0, minute);
}

std::string time_line(const Run& run) {
  if (!run.description || run.description->began.empty()) return "";
  const auto& began = run.description->began;
  auto line = "began " + minute_of(began) + " on " + run.description->host;
  if (run.summary && !run.going_on && !run.summary->ended.empty())
    line += ", ended " + minute_of(run.summary->ended, began);
  return line;
}

std::string end_box(const Run& run, bool named) {
  if (!run.summary || run.going_on || run.summary->message.empty()) return "";
  return element("div", {{"class", "ending " + status_class(run.summary->status)}},
                 element("b", {}, escaped(named ? run.name : run.summary->status)) + " " +
                     escaped(run.summary->message));
}

}  // namespace

std::string title_of(const std::vector<Run>& runs) {
  if (runs.size() == 1) return runs[0].name;
  return std::to_string(runs.size()) + " runs";
}

std::string status_pill(const std::string& status) {
  return element("span", {{"class", "pill " + status_class(status)}}, escaped(status));
}

std::string header_of(const std::vector<Run>& runs) {
  const bool alone = runs.size() == 1;
  std::string title = element("h1", {}, escaped(title_of(runs)));
  if (alone) title += status_pill(runs[0].status());
  std::vector<std::string> lines{shared_line(runs, "network"), shared_line(runs, "training")};
  if (alone) lines.push_back(time_line(runs[0]));
  std::string rest;
  for (const auto& line : lines)
    if (!line.empty()) rest += element("p", {}, escaped(line));
  for (const auto& run : runs) rest += end_box(run, !alone);
  return element("header", {}, element("div", {{"class", "title"}}, title) + rest);
}

std::string cards(const Run& run) {
  const auto outcome = outcome_of(run);
  std::string all;
  for (const char* metric :
       {"metrics/eval/mAP", "metrics/eval/Accuracy", "metrics/eval/CrossEntropy",
        "metrics/eval/BinaryCrossEntropy", "metrics/eval/MAE", "metrics/eval/R2", "loss/train"})
    all += metric_card(outcome, metric);
  for (const auto& [metric, values] : outcome.metrics)
    if (const auto set = evaluation_set(metric); !set.empty() && set != main_evaluation)
      if (metric_label(metric) != metric) all += metric_card(outcome, metric);
  all += card("time", duration_figure(outcome.seconds),
              counted(outcome.epochs, "epoch") + ", " + counted(outcome.batches, "step"));
  if (outcome.images_per_second)
    all += card(
        "images a second", figure(*outcome.images_per_second, 4),
        outcome.wait_fraction ? percent_figure(*outcome.wait_fraction) + " waiting for data" : "");
  if (outcome.peak_memory_bytes)
    all += card("peak memory", bytes_figure(*outcome.peak_memory_bytes));
  return element("div", {{"class", "cards"}}, all);
}

}  // namespace composer
