#include "cli/cost_table.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/terminal.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t operation_column = 1;
/// Operations are cut before columns are left out, but not below this.
constexpr int64_t narrowest_operation = 6;
constexpr const char* gap = "  ";

using Cells = std::vector<std::string>;

/// "36.9K", or a dash for nothing.
std::string number_cell(int64_t value) {
  auto text = value == 0 ? "-" : short_number(static_cast<double>(value));
  std::erase(text, ' ');
  return text;
}

std::string field_cell(const ReceptiveField& field) {
  if (field.whole) return "all";
  return field.size[0] == field.size[1] ? std::to_string(field.size[0]) : by_x(field.size);
}

Cells heading() {
  return {"layer", "operation", "output", "params", "forward", "step", "kept", "sees"};
}

Cells cells_of(const LayerCost& layer) {
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

/// Text from the left, numbers to the right.
std::string line_of(const Cells& cells, const std::vector<int64_t>& widths, size_t count) {
  std::string line;
  for (size_t i = 0; i < count; ++i) {
    const auto text = first_columns(cells[i], widths[i]);
    const std::string blanks(static_cast<size_t>(widths[i] - columns_of(text)), ' ');
    line += i > 0 ? gap : "";
    line += i <= operation_column + 1 ? text + blanks : blanks + text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string short_number(double value) {
  constexpr const char* units[] = {"", " K", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  // 999.5 has four digits once it is rounded.
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
  std::vector<Cells> rows{heading()};
  for (const auto& layer : layers) rows.push_back(cells_of(layer));
  std::vector<int64_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));

  size_t count = widths.size();
  auto& operation = widths[operation_column];
  const int64_t least = std::min(operation, narrowest_operation);
  const int64_t most = std::exchange(operation, least);
  while (count > operation_column + 1 && sum_of(widths, count) > columns) --count;
  operation = std::clamp(columns - (sum_of(widths, count) - least), least, most);

  std::vector<std::string> lines;
  for (const auto& row : rows) lines.push_back(first_columns(line_of(row, widths, count), columns));
  return lines;
}

}  // namespace composer
