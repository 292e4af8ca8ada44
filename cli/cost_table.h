// Tables of what a network, and its training on many GPUs, cost.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "nn/network/cost.h"
#include "scale/plan.h"

namespace composer {

/// The costs of consecutive operations of one layer.
struct LayerCost : OperationCost {
  std::string layer;                    ///< path of the layer; "" for the model itself
  std::vector<std::string> operations;  ///< "conv2d"
  std::vector<int64_t> output;          ///< shape of the output for batch_size images
};

/// cost: the cost of `graph` for batch_size images.
std::vector<LayerCost> layers_of(const Graph& graph, const NetworkCost& cost, int64_t batch_size);

/// A heading and a line for each layer, at most `columns` wide; the rightmost table columns are
/// left out first. Shapes lack the batch dimension.
std::vector<std::string> cost_table(const std::vector<LayerCost>& layers, int64_t columns);

/// The number with three digits: "25.6 M", "4.09 G", "512".
std::string short_number(double value);

/// "4.09 GB", "512B".
std::string bytes_text(double bytes);

/// "4.09 GFLOP/s", "512 FLOP/s".
std::string rate_text(double per_second, const char* unit);

/// "64x112x112".
std::string by_x(std::span<const int64_t> numbers);

/// Prints a line for each quantity with a column for each plan. training, assumptions: the input of
/// the plans; quantities without meaning for them have no line.
void print_scale_table(std::ostream& out, const std::vector<ScalePlan>& plans,
                       const Training& training, const Assumptions& assumptions);

}  // namespace composer
