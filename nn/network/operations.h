// The operations that networks are made of. Each computes what the at:: function does; while a pass
// is recorded on its thread (graph.h) it also reports itself. To be called with the namespace,
// op::relu(x): without it the name may find LibTorch's.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace composer {

/// One for each function of namespace op; relu_ and others that overwrite are of the same kind.
enum class OperationKind {
  adaptive_avg_pool2d,
  add,
  avg_pool2d,
  batch_norm,
  cat,
  conv2d,
  expand,
  flatten,
  gelu,
  group_norm,
  hardsigmoid,
  hardswish,
  layer_norm,
  linear,
  max_pool2d,
  mean,
  multiply,
  relu,
  scale,
  sigmoid,
  silu,
  standardize_weight,
  to_nchw,
  to_nhwc,
  unsqueeze,
};

/// The function's: "conv2d".
std::string_view name(OperationKind kind);

struct Conv2dOptions {
  int64_t in_channels, out_channels;
  std::array<int64_t, 2> kernel;
  std::array<int64_t, 2> stride{1, 1};
  std::array<int64_t, 2> padding{0, 0};
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;
  bool bias = true;
};

struct Pool2dOptions {
  std::array<int64_t, 2> kernel;
  std::array<int64_t, 2> stride;
  std::array<int64_t, 2> padding{0, 0};
  std::array<int64_t, 2> dilation{1, 1};
  bool ceil_mode = false;
};

struct AdaptivePool2dOptions {
  std::array<int64_t, 2> size;  ///< of the output
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new batch
  bool training = false;  ///< by the statistics of the batch
};

struct GroupNormOptions {
  int64_t groups;
  double eps = 1e-5;
};

struct LayerNormOptions {
  int64_t features;
  double eps = 1e-5;
};

struct ScaleOptions {
  double factor;
};

struct ExpandOptions {
  std::vector<int64_t> shape;
};

struct StandardizeOptions {
  double eps;
};

using OperationOptions =
    std::variant<std::monostate, AdaptivePool2dOptions, BatchNormOptions, Conv2dOptions,
                 ExpandOptions, GroupNormOptions, LayerNormOptions, Pool2dOptions, ScaleOptions,
                 StandardizeOptions>;

namespace op {

/// input [N, in, H, W], weight [out, in / groups, kh, kw], bias [out] or undefined.
at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                  const Conv2dOptions& options);

/// input [N, ..., in], weight [out, in], bias [out] or undefined.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

/// input [N, C, ...]; weight, bias, mean, variance [C] or undefined. In training the last two are
/// running statistics that take the batch's up.
at::Tensor batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& mean, const at::Tensor& variance,
                      const BatchNormOptions& options);
/// input [N, C, ...]; weight, bias [C] or undefined.
at::Tensor group_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const GroupNormOptions& options);
/// input [..., features]; weight, bias [features] or undefined.
at::Tensor layer_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const LayerNormOptions& options);

at::Tensor relu(const at::Tensor& input);
at::Tensor relu_(at::Tensor input);
at::Tensor gelu(const at::Tensor& input);
at::Tensor sigmoid(const at::Tensor& input);
at::Tensor sigmoid_(at::Tensor input);
/// x * sigmoid(x).
at::Tensor silu(const at::Tensor& input);
/// x / 6 + 1 / 2 within [0, 1].
at::Tensor hardsigmoid(const at::Tensor& input);
/// x * hardsigmoid(x).
at::Tensor hardswish(const at::Tensor& input);

/// Shapes as PyTorch broadcasts them; add_ keeps that of `input`.
at::Tensor add(const at::Tensor& input, const at::Tensor& other);
at::Tensor add_(at::Tensor input, const at::Tensor& other);
at::Tensor multiply(const at::Tensor& input, const at::Tensor& other);
at::Tensor scale(const at::Tensor& input, double factor);

/// input [N, C, H, W].
at::Tensor max_pool2d(const at::Tensor& input, const Pool2dOptions& options);
/// The same; padding counts as zeros, options.dilation is not read.
at::Tensor avg_pool2d(const at::Tensor& input, const Pool2dOptions& options);
at::Tensor adaptive_avg_pool2d(const at::Tensor& input, const AdaptivePool2dOptions& options);
/// [N, C, H, W] -> [N, C].
at::Tensor mean(const at::Tensor& input);

/// [N, ...] -> [N, all the rest].
at::Tensor flatten(const at::Tensor& input);
/// [N, C, H, W] -> [N, H, W, C], and back; views.
at::Tensor to_nhwc(const at::Tensor& input);
at::Tensor to_nchw(const at::Tensor& input);
/// [N, C] -> [N, C, 1, 1].
at::Tensor unsqueeze(const at::Tensor& input);
at::Tensor expand(const at::Tensor& input, const ExpandOptions& options);
/// Channels one after another, dimension 1.
at::Tensor cat(const std::vector<at::Tensor>& inputs);

/// (weight - mean) / sqrt(variance + eps), both over all dimensions but the first; the variance is
/// the population's.
at::Tensor standardize_weight(const at::Tensor& weight, const StandardizeOptions& options);

/// Whether a pass is recorded on this thread.
bool recorded();
/// Whether what one of these functions computes is known to it alone: a pass is recorded, or rows
/// are divided among ranks (spatial_parallel.h). A kernel for several operations steps back then.
bool one_by_one();

/// Of images [N, C, H, W], H; where ranks have rows of them, that of all rows.
int64_t height(const at::Tensor& images);
/// Of a tensor [N, C, ...], where ranks have rows of it those of all.
int64_t values_a_channel(const at::Tensor& input);

/// No operation: says that `output` was made of `input` place by place, each by its own channel.
at::Tensor converted(at::Tensor output, const at::Tensor& input);

/// No operation: says of a tensor that was made during a pass that it does not depend on the
/// network's input. Those made before a pass are taken as such.
at::Tensor constant(at::Tensor tensor);

}  // namespace op
}  // namespace composer
