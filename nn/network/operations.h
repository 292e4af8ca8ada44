// The operations of networks. Each function computes what LibTorch's at:: function does; while a
// pass is recorded on its thread (graph.h), it also reports itself. Call it with its namespace,
// op::relu(x): the bare name may find LibTorch's function.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace composer {

/// One kind per function of namespace op; relu_ and other in-place functions share the kind of the
/// plain one.
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

/// The name of the kind's function: "conv2d".
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
  std::array<int64_t, 2> size;  ///< size of the output
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new batch
  bool training = false;  ///< uses the batch's statistics
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

/// The result of the kind's function for these inputs and options. inputs: in the order of the
/// function's tensors; an absent one is undefined, or left out at the end of the list.
at::Tensor compute(OperationKind kind, const OperationOptions& options,
                   const std::vector<at::Tensor>& inputs);

namespace op {

/// input [N, in, H, W], weight [out, in / groups, kh, kw], bias [out] or undefined.
at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                  const Conv2dOptions& options);

/// input [N, ..., in], weight [out, in], bias [out] or undefined.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

/// input [N, C, ...]; weight, bias, mean, variance [C] or undefined. In training mean and variance
/// are running statistics, which the batch's update.
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

/// Shapes are broadcast as in PyTorch; add_ keeps the shape of `input`.
at::Tensor add(const at::Tensor& input, const at::Tensor& other);
at::Tensor add_(at::Tensor input, const at::Tensor& other);
at::Tensor multiply(const at::Tensor& input, const at::Tensor& other);
at::Tensor scale(const at::Tensor& input, double factor);

/// input [N, C, H, W].
at::Tensor max_pool2d(const at::Tensor& input, const Pool2dOptions& options);
/// The same; padding counts as zeros, and options.dilation is not read.
at::Tensor avg_pool2d(const at::Tensor& input, const Pool2dOptions& options);
at::Tensor adaptive_avg_pool2d(const at::Tensor& input, const AdaptivePool2dOptions& options);
/// [N, C, H, W] -> [N, C].
at::Tensor mean(const at::Tensor& input);

/// [N, ...] -> [N, all the rest].
at::Tensor flatten(const at::Tensor& input);
/// [N, C, H, W] -> [N, H, W, C], and back, as views.
at::Tensor to_nhwc(const at::Tensor& input);
at::Tensor to_nchw(const at::Tensor& input);
/// [N, C] -> [N, C, 1, 1].
at::Tensor unsqueeze(const at::Tensor& input);
at::Tensor expand(const at::Tensor& input, const ExpandOptions& options);
/// Concatenates channels (dimension 1).
at::Tensor cat(const std::vector<at::Tensor>& inputs);

/// (weight - mean) / sqrt(variance + eps), both over all dimensions but the first; the variance is
/// not Bessel-corrected.
at::Tensor standardize_weight(const at::Tensor& weight, const StandardizeOptions& options);

/// Whether a pass is recorded on this thread.
bool recorded();
/// Whether each function must run by itself: a pass is recorded, or rows are divided among ranks
/// (spatial_parallel.h). Kernels that fuse several operations are not used then.
bool one_by_one();

/// H of images [N, C, H, W]; where each rank has some rows, the height of whole images.
int64_t height(const at::Tensor& images);
/// Values per channel of a tensor [N, C, ...]; where each rank has some rows, those of all ranks.
int64_t values_a_channel(const at::Tensor& input);

/// No operation: declares that `output` was made of `input` element by element.
at::Tensor converted(at::Tensor output, const at::Tensor& input);

/// No operation: declares that a tensor made during a pass does not depend on the network's input.
/// Tensors made before the pass count as such.
at::Tensor constant(at::Tensor tensor);

}  // namespace op
}  // namespace composer
