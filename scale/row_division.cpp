#include "scale/row_division.h"

#include <algorithm>
#include <variant>

#include "nn/network/row_operations.h"

namespace composer {
namespace {

using Held = SpatialParallel::Held;

/// All-reduces around a ring of `ranks`, one after another: of so many numbers, by image or batch.
RowsSent all_reduced(int64_t ranks, double sums, double image_sums, double batch_sums) {
  const auto n = static_cast<double>(ranks);
  const double share = 2 * (n - 1) / n;
  return {.image_sums = share * image_sums,
          .batch_sums = share * batch_sums,
          .messages = sums * 2 * (n - 1)};
}

/// A gather of so many numbers of each rank.
RowsSent gathered(int64_t ranks, double numbers) {
  const auto others = static_cast<double>(ranks - 1);
  return {.batch_sums = others * numbers, .messages = others};
}

RowWindow window_down(const Graph::Operation& operation) {
  if (const auto* const conv = std::get_if<Conv2dOptions>(&operation.options))
    return row_window(*conv);
  auto window = row_window(std::get<Pool2dOptions>(operation.options));
  window.cut_off = operation.kind == OperationKind::avg_pool2d;
  return window;
}

}  // namespace

RowDivision::RowDivision(const Graph& graph, int64_t ranks, bool trains)
    : graph_(graph),
      ranks_(ranks),
      trains_(trains),
      known_(graph.values.size()),
      needs_gradient_(graph.values.size(), false) {
  known_[graph.input] = {graph.values[graph.input].shape.at(2), Held::image};
}

RowDivision::Known RowDivision::input_of(const Graph::Operation& operation) const {
  for (const auto& input : operation.inputs)
    if (input && known_[*input].held == Held::rows) return known_[*input];
  return operation.inputs.empty() ? Known{} : known_[operation.inputs[0].value()];
}

RowDivision::Known RowDivision::output_of(const Graph::Operation& operation,
                                          const Known& input) const {
  switch (operation.kind) {
    case OperationKind::conv2d:
    case OperationKind::max_pool2d:
    case OperationKind::avg_pool2d:
      return input.held == Held::whole
                 ? Known{}
                 : Known{graph_.values[operation.output].shape[2], Held::rows};
    case OperationKind::relu:
    case OperationKind::gelu:
    case OperationKind::sigmoid:
    case OperationKind::scale:
    case OperationKind::batch_norm:
    case OperationKind::group_norm:
    case OperationKind::add:
    case OperationKind::multiply:
    case OperationKind::cat:
      return input;
    default:
      return {};
  }
}

double RowDivision::largest_share(const Known& known) const {
  if (known.held != Held::rows) return 1;
  return static_cast<double>(own_rows(known.height, ranks_ - 1, ranks_).size()) /
         static_cast<double>(known.height);
}

RowsSent RowDivision::exchange_before(const Graph::Operation& operation, int64_t height) const {
  const auto rows = most_rows_exchanged(height, window_down(operation), ranks_);
  const auto& shape = graph_.values[operation.inputs[0].value()].shape;  // [1, C, H, W]
  if (rows == 0) return {};
  return {.values = static_cast<double>(rows * shape[1] * shape[3]), .messages = 1};
}

RowDivision::Part RowDivision::next(const Graph::Operation& operation, const Cost& cost) {
  const auto input = input_of(operation), output = output_of(operation, input);
  bool trained = cost.trainable_parameters > 0;
  for (const auto& one : operation.inputs) trained = trained || (one && needs_gradient_[*one]);
  known_[operation.output] = output;
  needs_gradient_[operation.output] = trained;
  Part part;
  if (ranks_ == 1) return part;
  part.computed = largest_share(output);
  part.kept = largest_share(input);
  if (input.held != Held::rows) return part;

  const auto& shape = graph_.values[operation.inputs[0].value()].shape;
  switch (operation.kind) {
    case OperationKind::conv2d:
    case OperationKind::max_pool2d:
    case OperationKind::avg_pool2d:
      part.forward = exchange_before(operation, input.height);
      if (trained) part.taken = part.forward.values;
      if (needs_gradient_[*operation.inputs[0]]) part.backward = part.forward;
      break;
    case OperationKind::batch_norm: {
      const bool frozen = cost.parameters > 0 && cost.trainable_parameters == 0;
      if (frozen || !trains_) break;  // by its running statistics
      const auto channels = static_cast<double>(shape[1]);
      part.forward = gathered(ranks_, 2 * channels + 1);
      if (trained) part.backward = all_reduced(ranks_, 1, 0, 2 * channels);
      break;
    }
    case OperationKind::group_norm: {
      const auto groups = static_cast<double>(std::get<GroupNormOptions>(operation.options).groups);
      part.forward = all_reduced(ranks_, 2, 2 * groups, 0);
      if (trained) part.backward = part.forward;
      break;
    }
    case OperationKind::adaptive_avg_pool2d:
    case OperationKind::mean:
      part.forward = all_reduced(ranks_, 1, static_cast<double>(shape[1]), 0);
      if (trained) part.backward = part.forward;
      break;
    default:
      break;
  }
  return part;
}

}  // namespace composer
