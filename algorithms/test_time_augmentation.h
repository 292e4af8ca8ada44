// test_time_augmentation: predicts the mean over several views of an image, mirrored and shifted,
// which is right more often than one view (Krizhevsky et al. 2012, "ImageNet classification with
// deep convolutional neural networks"; the views of Jordan 2024, arXiv:2404.00498).
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"

namespace composer {

using Classify = std::function<at::Tensor(const at::Tensor& images)>;

/// float32 logits [N, classes] of `images` [N, C, H, W], whose plain logits are `logits`. Level 1:
/// the mean over image and mirror image (one more forward pass). Level 2: the mean of level 1 and
/// of the first and last window of the image padded by `shift` reflected pixels, each with its
/// mirror image (five more passes). Throws UserError if an image has no `shift` pixels to reflect.
at::Tensor mean_over_views(const Classify& classify, const at::Tensor& images,
                           const at::Tensor& logits, int64_t level, int64_t shift);

/// int64 [ceil(share * N)]: the samples whose most probable class has the lowest probabilities.
at::Tensor least_confident(const at::Tensor& logits, double share);

/// Acts in evaluation and prediction; training does not change.
class TestTimeAugmentation : public UnrestrictedAlgorithm {
 public:
  struct Params {
    int64_t level = 1;
    int64_t shift = 1;
    double share = 1;

    void fields(auto&& f) {
      f("level", level, "1: mirror images; 2: also two shifted windows and their mirror images",
        in(1, 2));
      f("shift", shift, "how far the windows of level 2 are shifted both ways, in pixels",
        at_least(1));
      f("share", share, "of each batch only the least confident share has more views than one",
        above(0.0), in(0.0, 1.0));
    }
  };

  explicit TestTimeAugmentation(Params params) : params_(params) {}

  void eval_after_forward(State& state) override { add_views(state); }
  void predict_after_forward(State& state) override { add_views(state); }

 private:
  void add_views(State& state) const;

  Params params_;
};

}  // namespace composer
