// blurpool: blurs before every downsampling, so that the output of a network depends less on shifts
// of its input (Zhang 2019, "Making convolutional networks shift-invariant again",
// arXiv:1904.11486).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// The filter [1 2 1] x [1 2 1] / 16 for each of `like`'s channels, [C, 1, 3, 3], with its type,
/// device and strides.
at::Tensor blur_filter(const at::Tensor& like);

/// GPU kernels of depthwise convolutions index by 32 bits.
constexpr int64_t most_elements_at_once = std::numeric_limits<int32_t>::max();

/// Convolves every channel of `input` [N, C, H, W] with `filter` (of blur_filter), zero padding 1:
/// [N, C, ceil(H / stride), ceil(W / stride)]. The type stays the input's, under autocast too. A
/// batch of more than `most_elements` elements is convolved part by part.
at::Tensor blur(const at::Tensor& input, std::array<int64_t, 2> stride, const at::Tensor& filter,
                int64_t most_elements = most_elements_at_once);
at::Tensor blur(const at::Tensor& input, std::array<int64_t, 2> stride);

/// Caches a filter per number of channels, type, device and strides of the input. Filters keep
/// their memory, as captured steps need. They are no buffers and are never saved.
class BlurFilter {
 public:
  const at::Tensor& operator()(const at::Tensor& input);

 private:
  std::deque<at::Tensor> filters_;
};

/// A strided convolution that blurs its input (the default), or its output computed without stride.
/// Shares the original's weight and bias.
class BlurConv2d : public Conv2d, public RoundsWithin {
 public:
  explicit BlurConv2d(const Conv2d& original, bool blur_first = true)
      : Conv2d(original), blur_first_(blur_first) {}

  at::Tensor forward(const at::Tensor& input) override { return forward_rounded(input, {}); }
  at::Tensor forward_rounded(const at::Tensor& input, const Rounder& rounder) override;
  std::string describe() const override;
  bool by_rows() const override { return true; }

 private:
  bool blur_first_;
  BlurFilter filter_;
};

/// Max pooling without stride, then a blur with the original's stride.
class BlurMaxPool2d : public MaxPool2d, public RoundsWithin {
 public:
  explicit BlurMaxPool2d(const MaxPool2d& original) : MaxPool2d(original.options()) {}

  at::Tensor forward(const at::Tensor& input) override;
  at::Tensor forward_rounded(const at::Tensor& input, const Rounder& rounder) override;
  std::string describe() const override;
  bool by_rows() const override { return true; }

 private:
  BlurFilter filter_;
};

class BlurPool : public Surgery {
 public:
  struct Params {
    bool replace_convs = true;
    bool replace_maxpools = true;
    bool blur_first = true;
    int64_t min_channels = 16;
    bool allow_no_effect = false;

    void fields(auto&& f) {
      f("replace_convs", replace_convs, "whether strided convolutions get a blur");
      f("replace_maxpools", replace_maxpools, "whether max pooling gets a blur");
      f("blur_first", blur_first,
        "blur a convolution's input; false blurs its output, which costs stride^2 times the "
        "convolution's arithmetic");
      f("min_channels", min_channels, "convolutions with fewer input channels are left alone",
        at_least(0));
      f("allow_no_effect", allow_no_effect, "go on when the model has nothing to replace");
    }
  };

  explicit BlurPool(Params params) : params_(params) {}

  void init(State& state) override;

 private:
  Params params_;
};

/// Replaces max pooling and strided convolutions by blurring layers. Weights and their names stay.
/// Throws UserError when nothing fits, unless params.allow_no_effect.
std::vector<Replacement> apply_blurpool(Block& model, const BlurPool::Params& params);

/// at::max_pool2d of `input` [N, C, H, W] with stride 1 instead of the options' stride, with the
/// same values and gradients. Saves two bytes per element for the gradient, LibTorch saves eight.
/// Works on parts of the batch of at most `most_elements` elements, but at least one sample.
at::Tensor unstrided_max_pool(const at::Tensor& input, const Pool2dOptions& options,
                              int64_t most_elements = 1 << 27);

}  // namespace composer
