// The layers that convolutional networks are built from, with PyTorch's parameter names and default
// initialisation.
#pragma once

#include <array>
#include <cstdint>

#include "nn/network/bf16_copy.h"
#include "nn/network/layer.h"
#include "nn/network/norm_layer.h"
#include "nn/network/operations.h"

namespace composer {

/// weight [out, in / groups, kh, kw], bias [out] or undefined. LayerError for images that are
/// smaller than the kernel.
class Conv2d : public Layer, public HasShadows {
 public:
  explicit Conv2d(const Conv2dOptions& options);
  /// Shares the tensors of `other`.
  Conv2d(const Conv2d& other) = default;

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override;

  std::vector<ShadowedWeight> shadowed_weights() const override;

  const Conv2dOptions& options() const { return options_; }
  at::Tensor weight, bias;

 protected:
  at::Tensor convolve(const at::Tensor& input, std::array<int64_t, 2> stride) const;

  Conv2dOptions options_;

 private:
  std::shared_ptr<Bf16Copy> bf16_copy_ = std::make_shared<Bf16Copy>();
  std::shared_ptr<Bf16Copy> bias_shadow_ = std::make_shared<Bf16Copy>();
};

/// weight, bias [channels]; buffers running_mean, running_var [channels], num_batches_tracked [].
/// momentum is the weight of the new batch (PyTorch's convention). LayerError in training for one
/// value a channel, of which there is no variance. num_batches_tracked stays on the CPU wherever
/// the layer goes: nothing is computed from it, and a GPU would take a kernel to count. What
/// follows the norm is computed with it (fused_norm.h), so derived classes override forward().
class BatchNorm2d : public NormLayer {
 public:
  explicit BatchNorm2d(int64_t channels, double eps = 1e-5, double momentum = 0.1);

  using NormLayer::forward;
  at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                     Activation activation) override;
  std::string why_separate() const override { return ""; }
  std::string describe() const override;
  bool by_rows() const override;

  using Layer::to;
  void to(at::Device device, at::ScalarType type, bool non_blocking = false) override;
  void to(at::Device device, bool non_blocking = false) override;

  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  at::Tensor normalize(const at::Tensor& input) final { return forward(input); }

  /// activation(norm of input + residual); in training `momentum` is the input's weight in the
  /// running statistics.
  at::Tensor normalized(const at::Tensor& input, const at::Tensor& residual, Activation activation,
                        double momentum);

  /// Counts a training batch and returns its weight in the running statistics: momentum; 0, and not
  /// counted, where a block runs again for its gradients.
  double take_up_batch();

  int64_t channels_;
  double eps_, momentum_;
};

/// weight [out, in], bias [out] or undefined. Input [N, ..., in].
class Linear : public Layer, public HasShadows {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true);

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override;
  std::vector<ShadowedWeight> shadowed_weights() const override;

  at::Tensor weight, bias;

 private:
  int64_t in_features_, out_features_;
  std::shared_ptr<Bf16Copy> bf16_copy_ = std::make_shared<Bf16Copy>();
  std::shared_ptr<Bf16Copy> bias_shadow_ = std::make_shared<Bf16Copy>();
};

/// LayerError for images that are smaller than the kernel.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override;

  const Pool2dOptions& options() const { return options_; }

 protected:
  void check_size(const at::Tensor& input) const;

 private:
  Pool2dOptions options_;
};

/// Padding counts as zeros, and cells past it (ceil_mode) not at all. LayerError as MaxPool2d.
class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(const Pool2dOptions& options) : options_(options) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override;

  const Pool2dOptions& options() const { return options_; }

 private:
  Pool2dOptions options_;
};

/// in_place: overwrites its input, which nothing else may need then (the output of a convolution or
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

/// x * sigmoid(x) (Elfwing et al. 2017, arXiv:1702.03118).
class Silu : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return op::silu(input); }
  std::string describe() const override { return "SiLU"; }
};

/// x / 6 + 1 / 2 within [0, 1], and x times that (Howard et al. 2019, arXiv:1905.02244).
class Hardsigmoid : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return op::hardsigmoid(input); }
  std::string describe() const override { return "Hardsigmoid"; }
};
class Hardswish : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return op::hardswish(input); }
  std::string describe() const override { return "Hardswish"; }
};

/// [N, C, H, W] -> [N, C * size * size], each cell the mean over its share of the image.
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(int64_t size = 1) : size_(size) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return size_ == 1; }

 private:
  int64_t size_;
};

}  // namespace composer
