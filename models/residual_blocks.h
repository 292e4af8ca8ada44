// The blocks of residual networks (He et al. 2016, arXiv:1512.03385), with torchvision's parameter
// names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/network/layers.h"

namespace composer {

/// k x k convolution without bias that keeps the size for stride 1.
std::shared_ptr<Layer> conv(int64_t in_channels, int64_t out_channels, int64_t kernel,
                            int64_t stride = 1, int64_t groups = 1);

/// "Bottleneck(64, 256, stride 2)" of a block's kind and its numbers of channels; without a stride
/// of 1.
std::string block_text(const std::string& kind, const std::vector<int64_t>& channels,
                       int64_t stride);

/// The normalisation after each convolution.
enum class Norm {
  batch,  ///< BatchNorm2d
  group,  ///< GroupNorm of 32 groups, or fewer, of two channels each
};
inline constexpr int64_t norm_groups = 32;
std::shared_ptr<Layer> make_norm(Norm norm, int64_t channels);

struct ResidualOptions {
  int64_t in_channels;
  int64_t width;       ///< channels of the inner convolutions
  int64_t stride = 1;  ///< stride of the first 3x3 convolution
  Norm norm = Norm::batch;
  /// A projection pools by the stride and convolves with stride 1 (ResNet-D).
  bool pooled_shortcut = false;
};

/// The part that residual blocks share: the shortcut is the identity, or "downsample" where the
/// number of channels or the size changes. "downsample" is a 1x1 convolution and a norm, with
/// pooled_shortcut after a 2x2 pool.
class ProjectedBlock : public ResidualBlock {
 public:
  at::Tensor forward(const at::Tensor& input) override;
  at::Tensor shortcut(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return true; }

 protected:
  ProjectedBlock(std::string kind, const ResidualOptions& options, int64_t out_channels);

  /// Called once, by the derived class's constructor after it has added its own layers.
  void add_downsample();

 private:
  std::string kind_;
  ResidualOptions options_;
  int64_t out_channels_;
  std::shared_ptr<Layer> projection_;
  Slot* downsample_ = nullptr;
};

/// Two 3x3 convolutions. Output channels: width.
class BasicBlock final : public ProjectedBlock {
 public:
  static constexpr int64_t expansion = 1;
  explicit BasicBlock(const ResidualOptions& options);

  at::Tensor branch(const at::Tensor& input) override;
  Slot& last() override { return bn2_; }

 private:
  Slot &conv1_, &bn1_, &conv2_, &bn2_;
};

/// 1x1, 3x3 and 1x1 convolutions. Output channels: 4 * width. The 3x3 convolution has the stride
/// (ResNet v1.5).
class Bottleneck final : public ProjectedBlock {
 public:
  static constexpr int64_t expansion = 4;
  /// The 3x3 convolution has groups * (width * width_per_group / 64) channels (ResNeXt, Xie et al.
  /// 2017, arXiv:1611.05431).
  explicit Bottleneck(const ResidualOptions& options, int64_t groups = 1,
                      int64_t width_per_group = 64);

  at::Tensor branch(const at::Tensor& input) override;
  Slot& last() override { return bn3_; }

 private:
  int64_t inner_;
  Slot &conv1_, &bn1_, &conv2_, &bn2_, &conv3_, &bn3_;
};

}  // namespace composer
