#include "cli/scale_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <string>

#include "analysis/figure_text.h"
#include "cli/cost_table.h"

namespace composer {
namespace {

/// A quantity of each plan, for people.
struct TableLine {
  std::string name;
  std::function<std::string(const ScalePlan&)> cell;
};

std::string milliseconds(double seconds) { return figure(seconds * 1e3, 3) + " ms"; }

std::vector<TableLine> lines_of(const Training& training, const Assumptions& assumptions) {
  std::vector<TableLine> lines{
      {"GPUs", [](const auto& plan) { return count_figure(plan.cluster.gpus); }},
      {"machines", [](const auto& plan) { return count_figure(plan.cluster.machines()); }},
      {"images a GPU and step", [](const auto& plan) { return figure(plan.images_per_gpu, 6); }},
      {"images/s", [](const auto& plan) { return count_figure(std::llround(plan.images_per_s)); }},
      {"step", [](const auto& plan) { return milliseconds(plan.step.seconds); }},
      {"  compute", [](const auto& plan) { return milliseconds(plan.step.compute); }},
      {"  sums of gradients", [](const auto& plan) {
         return milliseconds(plan.step.communication - plan.step.weights - plan.step.rows);
       }}};
  if (training.divided != Divided::nothing)
    lines.push_back({"  weights from their owners",
                     [](const auto& plan) { return milliseconds(plan.step.weights); }});
  if (training.spatial_ranks > 1)
    lines.push_back(
        {"  rows of images", [](const auto& plan) { return milliseconds(plan.step.rows); }});
  lines.insert(
      lines.end(),
      {{"    of them hidden",
        [](const auto& plan) { return percent_figure(plan.step.hidden_fraction()); }},
       {"  waits for data", [](const auto& plan) { return milliseconds(plan.step.loading); }},
       {"time to train", [](const auto& plan) { return duration_figure(plan.seconds()); }},
       {"  evaluation", [](const auto& plan) { return duration_figure(plan.evaluation_seconds); }},
       {"  checkpoints", [](const auto& plan) { return duration_figure(plan.checkpoint_seconds); }},
       {"  failures", [](const auto& plan) { return duration_figure(plan.failure_seconds); }}});
  if (assumptions.price_per_hour > 0)
    lines.push_back({"cost", [](const auto& plan) { return decimal_figure(plan.cost, 2); }});
  if (training.images_per_s_per_core > 0)
    lines.push_back({"loader cores a GPU",
                     [](const auto& plan) { return figure(plan.loader_cores_per_gpu, 3); }});
  lines.insert(
      lines.end(),
      {{"from storage", [](const auto& plan) { return rate_text(plan.storage_bytes_per_s, "B"); }},
       {"  to a machine",
        [](const auto& plan) {
          return rate_text(plan.storage_bytes_per_s / static_cast<double>(plan.cluster.machines()),
                           "B");
        }},
       {"network of a machine",
        [](const auto& plan) { return rate_text(plan.machine_bytes_per_s, "B"); }},
       {"link of a GPU", [](const auto& plan) { return rate_text(plan.inside_bytes_per_s, "B"); }},
       {"memory of a GPU", [](const auto& plan) { return bytes_text(plan.memory.total()); }},
       {"  parameters", [](const auto& plan) { return bytes_text(plan.memory.parameters); }},
       {"  gradients", [](const auto& plan) { return bytes_text(plan.memory.gradients); }},
       {"  optimizer's state",
        [](const auto& plan) { return bytes_text(plan.memory.optimizer_state); }}});
  if (training.divided != Divided::nothing)
    lines.push_back({"  of other GPUs, for a while",
                     [](const auto& plan) { return bytes_text(plan.memory.gathered); }});
  if (training.precision == Precision::amp_fp16 || training.precision == Precision::amp_bf16)
    lines.push_back({"  half-precision copies", [](const auto& plan) {
                       return bytes_text(plan.memory.half_precision_copies);
                     }});
  lines.insert(
      lines.end(),
      {{"  kept activations", [](const auto& plan) { return bytes_text(plan.memory.activations); }},
       {"checkpoint, written",
        [](const auto& plan) { return duration_figure(plan.write_seconds); }},
       {"checkpoint, stall", [](const auto& plan) { return duration_figure(plan.stall_seconds); }},
       {"failures a day", [](const auto& plan) { return figure(plan.failures_per_day, 3); }},
       {"checkpoints every",
        [](const auto& plan) { return duration_figure(plan.checkpoint_interval); }}});
  if (assumptions.gpu_hours_per_failure > 0)
    lines.push_back({"best for failures",
                     [](const auto& plan) { return duration_figure(plan.best_interval); }});
  if (assumptions.simulated_steps > 0)
    lines.push_back({"step, simulated", [](const auto& plan) {
                       return plan.simulated ? milliseconds(plan.simulated->seconds_per_step)
                                             : std::string("-");
                     }});
  return lines;
}

}  // namespace

void print_scale_table(std::ostream& out, const std::vector<ScalePlan>& plans,
                       const Training& training, const Assumptions& assumptions) {
  const auto lines = lines_of(training, assumptions);
  std::vector<size_t> widths(plans.size(), 0);
  size_t names = 0;
  const auto columns = [](const std::string& text) {
    return static_cast<size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  };
  for (const auto& line : lines) {
    names = std::max(names, line.name.size());
    for (size_t i = 0; i < plans.size(); ++i)
      widths[i] = std::max(widths[i], columns(line.cell(plans[i])));
  }
  for (const auto& line : lines) {
    out << line.name << std::string(names - line.name.size(), ' ');
    for (size_t i = 0; i < plans.size(); ++i) {
      const auto cell = line.cell(plans[i]);
      out << "  " << std::string(widths[i] - columns(cell), ' ') << cell;
    }
    out << '\n';
  }
}

}  // namespace composer
