// The layers of convolutional networks, with PyTorch's parameter names and default initialisation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <typeinfo>

#include "nn/network/bf16_copy.h"
#include "nn/network/layer.h"
#include "nn/network/operations.h"

namespace composer {

struct NormCall;

/// weight [out, in / groups, kh, kw], bias [out] or undefined. LayerError for images smaller than
/// the kernel.
class Conv2d : public Layer, public Bf16Weights {
 public:
  explicit Conv2d(const Conv2dOptions& options);
  /// Shares the tensors of `other`.
  Conv2d(const Conv2d& other) = default;

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return typeid(*this) == typeid(Conv2d); }

  const Conv2dOptions& options() const { return options_; }

 protected:
  at::Tensor convolve(const at::Tensor& input, std::array<int64_t, 2> stride) const;

  Conv2dOptions options_;
};

/// weight, bias [channels]; buffers running_mean, running_var [channels], num_batches_tracked [].
/// momentum is the weight of the new batch (PyTorch's convention). LayerError in training for one
/// value per channel, which has no variance. num_batches_tracked always stays on the CPU: nothing
/// is computed from it, and counting on a GPU would take a kernel. The norm is computed together
/// with what follows (fused_norm.h), so derived classes override forward().
class BatchNorm2d : public NormLayer {
 public:
  explicit BatchNorm2d(int64_t channels, double eps = 1e-5, double momentum = 0.1);

  using NormLayer::forward;
  at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                     Activation activation) override;
  at::Tensor forward_with_norm(const at::Tensor& input, const at::Tensor& residual,
                               NormLayer& residual_norm, Activation activation) override;
  at::Tensor forward_pooled(const at::Tensor& input, Activation activation,
                            const Pool2dOptions& pool) override;
  std::string why_separate() const override { return ""; }
  std::string describe() const override;
  bool by_rows() const override { return typeid(*this) == typeid(BatchNorm2d); }

  using Layer::to;
  void to(at::Device device, at::ScalarType type, bool non_blocking = false) override;
  void to(at::Device device, bool non_blocking = false) override;

  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  at::Tensor normalize(const at::Tensor& input) final { return forward(input); }

  /// activation(norm of input + residual); in training `momentum` is the batch's weight in the
  /// running statistics.
  at::Tensor normalized(const at::Tensor& input, const at::Tensor& residual, Activation activation,
                        double momentum);

  /// The arguments of the norm alone; `momentum` as in normalized().
  NormCall call(const at::Tensor& input, double momentum) const;

  /// In training counts the batch and returns its weight in the running statistics; else 0.
  /// LayerError in training for one value a channel.
  double weight_of_batch(const at::Tensor& input);

  /// Counts a training batch and returns its weight in the running statistics: momentum; or 0,
  /// uncounted, where a block runs again in the backward pass.
  double take_up_batch();

  int64_t channels_;
  double eps_, momentum_;
};

/// weight [out, in], bias [out] or undefined. Input [N, ..., in].
class Linear : public Layer, public Bf16Weights {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true);

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return typeid(*this) == typeid(Linear); }

 private:
  int64_t in_features_, out_features_;
};

/// Pooling by windows. LayerError for images smaller than the kernel.
class Pool2d : public Layer {
 public:
  std::string describe() const override;
  const Pool2dOptions& options() const { return options_; }

 protected:
  Pool2d(std::string name, const Pool2dOptions& options)
      : name_(std::move(name)), options_(options) {}
  void check_size(const at::Tensor& input) const;

 private:
  std::string name_;
  Pool2dOptions options_;
};

class MaxPool2d : public Pool2d {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : Pool2d("MaxPool2d", options) {}

  at::Tensor forward(const at::Tensor& input) override;
  const Pool2dOptions* max_pool() const override {
    return typeid(*this) == typeid(MaxPool2d) ? &options() : nullptr;
  }
  bool by_rows() const override { return typeid(*this) == typeid(MaxPool2d); }
};

/// Padding counts as zeros; cells beyond the padding (ceil_mode) do not count.
class AvgPool2d : public Pool2d {
 public:
  explicit AvgPool2d(const Pool2dOptions& options) : Pool2d("AvgPool2d", options) {}

  at::Tensor forward(const at::Tensor& input) override;
  bool by_rows() const override { return typeid(*this) == typeid(AvgPool2d); }
};

/// in_place: overwrites its input, which nothing else may need (the output of a convolution or
/// BatchNorm2d).
class ReLU : public Layer {
 public:
  explicit ReLU(bool in_place = false) : in_place_(in_place) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override { return "ReLU"; }
  bool by_rows() const override { return true; }

 private:
  bool in_place_;
};

/// x * Phi(x), Phi the standard normal distribution (Hendrycks and Gimpel 2016, arXiv:1606.08415).
class Gelu : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return op::gelu(input); }
  std::string describe() const override { return "GELU"; }
  bool by_rows() const override { return true; }
};

/// A layer that is one operation without parameters.
class OperationLayer : public Layer {
 public:
  OperationLayer(std::string description, at::Tensor (*operation)(const at::Tensor& input))
      : description_(std::move(description)), operation_(operation) {}

  at::Tensor forward(const at::Tensor& input) override { return operation_(input); }
  std::string describe() const override { return description_; }

 private:
  std::string description_;
  at::Tensor (*operation_)(const at::Tensor& input);
};

/// x * sigmoid(x) (Elfwing et al. 2017, arXiv:1702.03118).
struct Silu : OperationLayer {
  Silu() : OperationLayer("SiLU", op::silu) {}
};

/// x / 6 + 1 / 2 within [0, 1] (Howard et al. 2019, arXiv:1905.02244).
struct Hardsigmoid : OperationLayer {
  Hardsigmoid() : OperationLayer("Hardsigmoid", op::hardsigmoid) {}
};

/// x * hardsigmoid(x).
struct Hardswish : OperationLayer {
  Hardswish() : OperationLayer("Hardswish", op::hardswish) {}
};

/// [N, C, H, W] -> [N, C * size * size], each cell the mean over its part of the image.
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(int64_t size = 1) : size_(size) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return size_ == 1; }

 private:
  int64_t size_;
};

/// Normalises over the last dimension. weight, bias [features]; input [..., features] (Ba et al.
/// 2016, arXiv:1607.06450). Under autocast LayerNorm and GroupNorm compute in float32 on every
/// device, as PyTorch does on a GPU.
class LayerNorm : public NormLayer {
 public:
  explicit LayerNorm(int64_t features, double eps = 1e-5);
  /// Shares the tensors of `other`.
  LayerNorm(const LayerNorm& other) = default;

  std::string describe() const override;

  at::Tensor weight, bias;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;

  int64_t features_;
  double eps_;
};

/// LayerNorm over the channels of each pixel. Input [N, features, H, W].
class LayerNorm2d : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  std::string describe() const override;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;
};

/// Normalises over groups of channels / groups neighbouring channels. weight, bias [channels];
/// input [N, channels, ...] (Wu and He 2018, arXiv:1803.08494). UserError unless groups divides
/// channels. Under autocast LibTorch's group norm returns NCHW for any input: with channels_last
/// each one costs two conversions.
class GroupNorm : public NormLayer {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  /// Shares the tensors of `other`.
  GroupNorm(const GroupNorm& other) = default;

  std::string describe() const override;
  bool by_rows() const override { return typeid(*this) == typeid(GroupNorm); }

  at::Tensor weight, bias;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;

  int64_t groups_, channels_;
  double eps_;
};

}  // namespace composer
