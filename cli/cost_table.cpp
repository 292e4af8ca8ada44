#include "cli/cost_table.h"

#include <cstdio>
#include <ostream>

#include "analysis/figure_text.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/table.h"

namespace composer {
namespace {

constexpr size_t operation_column = 1;
/// The column of operations is narrowed to this width before other columns are left out.
constexpr int64_t narrowest_operation = 6;

/// "36.9K", or "-" for 0.
std::string number_cell(int64_t value) {
  auto text = value == 0 ? "-" : short_number(static_cast<double>(value));
  std::erase(text, ' ');
  return text;
}

std::string field_cell(const ReceptiveField& field) {
  if (field.whole) return "all";
  return field.size[0] == field.size[1] ? std::to_string(field.size[0]) : by_x(field.size);
}

Words cells_of(const LayerCost& layer) {
  return {layer.layer.empty() ? "(model)" : layer.layer,
          joined(layer.operations, " "),
          by_x(std::span(layer.output).subspan(std::min<size_t>(layer.output.size(), 1))),
          number_cell(layer.parameters),
          number_cell(layer.flops_forward),
          number_cell(layer.flops_step),
          number_cell(layer.activation_bytes),
          field_cell(layer.receptive_field)};
}

int64_t sum_of(const std::vector<int64_t>& widths, size_t count) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += widths[i] + (i > 0 ? 2 : 0);
  return sum;
}

/// A line of the table of plans.
struct Quantity {
  const char* name;
  std::string text;
  bool shown = true;
};

std::string milliseconds(double seconds) { return figure(seconds * 1e3, 3) + " ms"; }

std::vector<Quantity> quantities_of(const ScalePlan& plan, const Training& training,
                                    const Assumptions& assumptions) {
  const auto& cluster = plan.cluster;
  const auto& step = plan.step;
  const auto& memory = plan.memory;
  const bool divided = training.divided != Divided::nothing;
  const bool copies =
      training.precision == Precision::amp_fp16 || training.precision == Precision::amp_bf16;
  const auto machines = static_cast<double>(cluster.machines());
  std::vector<Quantity> quantities{
      {"GPUs", count_figure(cluster.gpus)},
      {"machines", count_figure(cluster.machines())},
      {"images a GPU and step", figure(plan.images_per_gpu, 6)},
      {"images/s", count_figure(std::llround(plan.images_per_s))},
      {"step", milliseconds(step.seconds)},
      {"  compute", milliseconds(step.compute)},
      {"  sums of gradients", milliseconds(step.communication - step.weights - step.rows)},
      {"  weights from their owners", milliseconds(step.weights), divided},
      {"  rows of images", milliseconds(step.rows), training.spatial_ranks > 1},
      {"    of them hidden", percent_figure(step.hidden_fraction())},
      {"  waits for data", milliseconds(step.loading)},
      {"time to train", duration_figure(plan.seconds())},
      {"  evaluation", duration_figure(plan.evaluation_seconds)},
      {"  checkpoints", duration_figure(plan.checkpoint_seconds)},
      {"  failures", duration_figure(plan.failure_seconds)},
      {"cost", decimal_figure(plan.cost, 2), assumptions.price_per_hour > 0},
      {"loader cores a GPU", figure(plan.loader_cores_per_gpu, 3),
       training.images_per_s_per_core > 0},
      {"from storage", rate_text(plan.storage_bytes_per_s, "B")},
      {"  to a machine", rate_text(plan.storage_bytes_per_s / machines, "B")},
      {"network of a machine", rate_text(plan.machine_bytes_per_s, "B")},
      {"link of a GPU", rate_text(plan.inside_bytes_per_s, "B")},
      {"memory of a GPU", bytes_text(memory.total())},
      {"  parameters", bytes_text(memory.parameters)},
      {"  gradients", bytes_text(memory.gradients)},
      {"  optimizer's state", bytes_text(memory.optimizer_state)},
      {"  of other GPUs, for a while", bytes_text(memory.gathered), divided},
      {"  half-precision copies", bytes_text(memory.half_precision_copies), copies},
      {"  kept activations", bytes_text(memory.activations)},
      {"checkpoint, written", duration_figure(plan.write_seconds)},
      {"checkpoint, stall", duration_figure(plan.stall_seconds)},
      {"failures a day", figure(plan.failures_per_day, 3)},
      {"checkpoints every", duration_figure(plan.checkpoint_interval)},
      {"best for failures", duration_figure(plan.best_interval),
       assumptions.gpu_hours_per_failure > 0},
      {"step, simulated", plan.simulated ? milliseconds(plan.simulated->seconds_per_step) : "-",
       assumptions.simulated_steps > 0}};
  std::erase_if(quantities, [](const auto& quantity) { return !quantity.shown; });
  return quantities;
}

}  // namespace

std::string short_number(double value) {
  constexpr const char* units[] = {"", " K", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  // 999.5 would be rounded to four digits.
  for (; value >= (unit == 0 ? 1000 : 999.5) && unit + 1 < std::size(units); ++unit) value /= 1000;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f%s", digits, value, units[unit]);
  return text;
}

std::string bytes_text(double bytes) { return short_number(bytes) + "B"; }

std::string rate_text(double per_second, const char* unit) {
  const auto number = short_number(per_second);
  return number + (number.find(' ') == std::string::npos ? " " : "") + unit + "/s";
}

std::string by_x(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

std::vector<LayerCost> layers_of(const Graph& graph, const NetworkCost& cost, int64_t batch_size) {
  std::vector<LayerCost> layers;
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& operation = graph.operations[i];
    if (layers.empty() || layers.back().layer != operation.layer) {
      layers.emplace_back();
      layers.back().layer = operation.layer;
    }
    auto& layer = layers.back();
    layer += cost.operations[i];
    layer.receptive_field = cost.operations[i].receptive_field;
    layer.operations.emplace_back(name(operation.kind));
    layer.output = graph.values[operation.output].shape;
    if (!layer.output.empty()) layer.output[0] *= batch_size;
  }
  return layers;
}

std::vector<std::string> cost_table(const std::vector<LayerCost>& layers, int64_t columns) {
  std::vector<Words> rows{
      {"layer", "operation", "output", "params", "forward", "step", "kept", "sees"}};
  for (const auto& layer : layers) rows.push_back(cells_of(layer));
  auto widths = widths_of(rows);
  size_t count = widths.size();
  auto& operation = widths[operation_column];
  const int64_t least = std::min(operation, narrowest_operation);
  const int64_t most = std::exchange(operation, least);
  while (count > operation_column + 1 && sum_of(widths, count) > columns) --count;
  operation = std::clamp(columns - (sum_of(widths, count) - least), least, most);

  widths.resize(count);
  std::vector<std::string> lines;
  for (const auto& row : rows)
    lines.push_back(first_columns(line_of(row, widths, "<<<>"), columns));
  return lines;
}

void print_scale_table(std::ostream& out, const std::vector<ScalePlan>& plans,
                       const Training& training, const Assumptions& assumptions) {
  std::vector<Words> rows;
  for (const auto& quantity : quantities_of(plans[0], training, assumptions))
    rows.push_back({quantity.name});
  for (const auto& plan : plans) {
    const auto quantities = quantities_of(plan, training, assumptions);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(quantities[i].text);
  }
  for (const auto& line : aligned(rows, "<>")) out << line << '\n';
}

}  // namespace composer
