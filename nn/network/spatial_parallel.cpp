#include "nn/network/spatial_parallel.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "nn/device/optional_tensor.h"
#include "nn/network/layer.h"
#include "nn/network/row_operations.h"
#include "nn/network/surgery.h"
#include "nn/network/synced_norm.h"

namespace composer {
namespace {

std::string cannot_be_divided(OperationKind kind, const std::string& why) {
  return "spatial_ranks: " + std::string(name(kind)) + " cannot be divided by rows: " + why;
}

/// The rows of a whole image that the exchange's operation needs.
at::Tensor rows_of_image(const at::Tensor& image, const RowExchange& exchange, double outside) {
  const RowRange all{0, image.size(2)}, needed = exchange.needed();
  const auto inside = common(all, needed);
  const auto above = inside.empty() ? needed.size() : inside.begin - needed.begin,
             below = inside.empty() ? 0 : needed.end - inside.end;
  const auto rows = image.narrow(2, inside.empty() ? 0 : inside.begin, inside.size());
  if (above == 0 && below == 0) return rows;
  return at::constant_pad_nd(rows, {0, 0, above, below}, outside);
}

/// This rank's output rows of an operation on whole images.
at::Tensor of_image(OperationKind kind, const OperationOptions& options,
                    at::ArrayRef<const at::Tensor*> inputs, const RowExchange& exchange) {
  const bool largest = kind == OperationKind::max_pool2d;
  const auto rows =
      rows_of_image(*inputs[0], exchange, largest ? -std::numeric_limits<double>::infinity() : 0.0);
  if (const auto* const conv = std::get_if<Conv2dOptions>(&options))
    return at::conv2d(rows, *inputs[1], if_defined(*inputs[2]), conv->stride,
                      at::IntArrayRef{0, conv->padding[1]}, conv->dilation, conv->groups);
  const auto& pool = std::get<Pool2dOptions>(options);
  const std::array<int64_t, 2> padding{0, pool.padding[1]};
  return largest ? at::max_pool2d(rows, pool.kernel, pool.stride, padding, pool.dilation,
                                  pool.ceil_mode)
                 : at::avg_pool2d(rows, pool.kernel, pool.stride, padding, pool.ceil_mode);
}

}  // namespace

SpatialParallel::SpatialParallel(Start start, const at::Tensor& input)
    : before_(std::exchange(current_, this)), ranks_(std::move(start.ranks)) {
  keep(input, start.known);
}

std::optional<SpatialParallel::Known> SpatialParallel::find(const at::Tensor& tensor) const {
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  return found == known_.end() ? std::nullopt : std::optional(found->second.second);
}

at::Tensor SpatialParallel::keep(at::Tensor tensor, const Known& known) {
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                          std::pair(WeakTensor(tensor.getIntrusivePtr()), known));
  return tensor;
}

SpatialParallel::Known SpatialParallel::known(OperationKind kind, const at::Tensor& tensor) const {
  if (const auto known = find(tensor)) return *known;
  throw LayerError(cannot_be_divided(
      kind,
      "it gets a tensor that was not made by the functions of nn/network/operations.h, "
      "so it is not known which rows of it each rank has"));
}

SpatialParallel::Known SpatialParallel::known_of_both(OperationKind kind, const at::Tensor& a,
                                                      const at::Tensor& b) const {
  const auto first = known(kind, a);
  const bool constant = !find(b) && (!b.requires_grad() || b.is_leaf());
  const auto second = constant ? Known{} : known(kind, b);
  const auto rows = [](const Known& one) { return one.held == Held::rows; };
  const bool alike = rows(first) && rows(second) && first.height == second.height;
  const auto fits = [&](const Known& known, const at::Tensor& tensor) {
    return alike || rows(known) || tensor.dim() < 3 || tensor.size(-2) == 1;
  };
  if ((rows(first) || rows(second)) &&
      (!fits(first, a) || !fits(second, b) || (rows(first) && rows(second) && !alike)))
    throw LayerError(cannot_be_divided(kind, "its inputs are of images of different heights"));
  return rows(second) ? second : first;
}

at::Tensor SpatialParallel::down_the_image(OperationKind kind, const OperationOptions& options,
                                           at::ArrayRef<const at::Tensor*> inputs,
                                           const Known& known) {
  const auto& input = *inputs[0];
  const auto* const conv = std::get_if<Conv2dOptions>(&options);
  const auto* const pool = std::get_if<Pool2dOptions>(&options);
  auto window = conv != nullptr ? row_window(*conv) : row_window(*pool);
  window.cut_off = kind == OperationKind::avg_pool2d;
  const int64_t height = window.output_height(known.height);
  const RowExchange exchange(ranks_, known.height, window);
  at::Tensor output;
  if (known.held == Held::image)
    output = of_image(kind, options, inputs, exchange);
  else if (conv != nullptr)
    output = conv2d_by_rows(input, *inputs[1], *inputs[2], *conv, exchange);
  else if (kind == OperationKind::max_pool2d)
    output = max_pool2d_by_rows(input, *pool, exchange);
  else
    output = avg_pool2d_by_rows(input, *pool, exchange);
  const auto own = own_rows(height, ranks_.rank(), ranks_.size());
  if (own.empty()) output = output.narrow(2, 0, 0);
  return keep(output, {height, Held::rows});
}

at::Tensor SpatialParallel::computed(OperationKind kind, const OperationOptions& options,
                                     at::ArrayRef<const at::Tensor*> inputs,
                                     c10::function_ref<at::Tensor()> compute) {
  if (kind == OperationKind::standardize_weight) return compute();
  if (kind == OperationKind::add || kind == OperationKind::multiply) {
    const auto of_both = known_of_both(kind, *inputs[0], *inputs[1]);
    return keep(compute(), of_both);
  }
  const auto& input = *inputs[0];
  const auto known = this->known(kind, input);
  const bool rows = known.held == Held::rows;
  switch (kind) {
    case OperationKind::conv2d:
    case OperationKind::max_pool2d:
    case OperationKind::avg_pool2d:
      if (known.held == Held::whole) break;
      return down_the_image(kind, options, inputs, known);
    case OperationKind::relu:
    case OperationKind::gelu:
    case OperationKind::sigmoid:
    case OperationKind::scale:
      return keep(compute(), known);
    case OperationKind::batch_norm: {
      const auto& norm = std::get<BatchNormOptions>(options);
      if (!rows || !norm.training) return keep(compute(), known);
      return keep(
          synced_batch_norm(input, *inputs[1], *inputs[2], *inputs[3], *inputs[4], norm, ranks_),
          known);
    }
    case OperationKind::group_norm:
      if (!rows) break;
      return keep(group_norm_by_rows(input, *inputs[1], *inputs[2],
                                     std::get<GroupNormOptions>(options), known.height, ranks_),
                  known);
    case OperationKind::adaptive_avg_pool2d:
      if (!rows) break;
      if (std::get<AdaptivePool2dOptions>(options).size != std::array<int64_t, 2>{1, 1})
        throw LayerError(cannot_be_divided(kind, "it leaves more than one pixel"));
      return keep(mean_by_rows(input, known.height, ranks_).unsqueeze(2).unsqueeze(3), {});
    case OperationKind::mean:
      if (!rows) break;
      return keep(mean_by_rows(input, known.height, ranks_), {});
    case OperationKind::cat:
      for (const auto* other : inputs.slice(1)) known_of_both(kind, input, *other);
      return keep(compute(), known);
    default:
      if (rows) throw LayerError(cannot_be_divided(kind, "it takes whole images"));
  }
  const auto output = compute();
  return keep(output, {output.dim() == 4 ? output.size(2) : 0, Held::whole});
}

at::Tensor forward_by_rows(Layer& network, const at::Tensor& images, const Ranks& ranks) {
  SpatialParallel pass({ranks, {images.size(2), SpatialParallel::Held::image}}, images);
  auto output = network.forward(images);
  const auto known = pass.find(output);
  if (!known || known->held == SpatialParallel::Held::rows)
    throw LayerError("spatial_ranks: the output of " + network.describe() +
                     " is divided by rows, where a network ends with values of whole images");
  return output;
}

void check_by_rows(Block& network) {
  std::vector<std::string> problems;
  if (!network.by_rows()) problems.push_back("the model, " + network.describe());
  for (const auto& placed : placed_layers(network))
    if (!placed.layer->by_rows())
      problems.push_back("layer " + placed.path + ", " + placed.layer->describe());
  if (problems.empty()) return;
  throw UserError("spatial_ranks: not made for rows of images: " + first_few(problems) +
                  "; resnet, resnet_cifar and wide_resnet are, without algorithms that put such "
                  "layers in; "
                  "give spatial_ranks: 1");
}

}  // namespace composer
