// whitening: the first convolution is computed from the data and then fixed: its outputs are
// uncorrelated and of equal variance, so that the network need not learn them (Page 2018, "How to
// train your ResNet", part 8; tysam-code 2023; Jordan 2024, arXiv:2404.00498).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <vector>

#include "algorithms/parts/schedule.h"
#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/distributed/ranks.h"
#include "nn/network/layers.h"

namespace composer {

/// The eigenvectors of the second moments of the patches of `images` [N, C, H, W], each over the
/// square root of its eigenvalue + eps, largest first: float32 [C * kh * kw, C, kh, kw]. The mean
/// is not subtracted. stride: stride of the patches. ranks: ranks whose images all count, although
/// one may have none; all get the same filters.
at::Tensor whitening_filters(const at::Tensor& images, std::array<int64_t, 2> kernel,
                             std::array<int64_t, 2> stride, double eps, const Ranks& ranks = {});

/// Sets half of the output channels of `conv` to the first filters and the other half to their
/// negatives, or fewer if there are fewer filters. Throws UserError for a convolution with groups.
void whiten(Conv2d& conv, const at::Tensor& images, double eps, const Ranks& ranks = {});

/// Fills the first convolution from the images of the run's first batch, before methods that mix or
/// cut whole batches change them, and never trains its weight. A weight that was loaded from a file
/// stays.
class Whitening : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double eps = 5e-4;
    int64_t samples = 5000;
    Time train_bias{3, TimeUnit::epoch};

    void fields(auto&& f) {
      f("eps", eps, "added to the eigenvalues: directions of less variance count less", above(0.0));
      f("samples", samples, "images of the first batch that take part, at most", at_least(1));
      f("train_bias", train_bias, "how long the layer's bias is trained, if it has one",
        at_least(0));
    }
    std::string check() const { return check_start("train_bias", train_bias); }
  };

  static Compatibility compatibility();

  explicit Whitening(const Params& params) : params_(params) {}

  /// First, before other algorithms change the images of a batch on the device.
  Order order(Event) const override { return Order::first; }

  void init(State& state) override;
  void fit_start(State& state) override;
  void after_dataloader(State& state) override;
  std::vector<std::string> report() const override;

 private:
  bool was_loaded() const;

  Params params_;
  std::string path_;
  Conv2d* conv_ = nullptr;  ///< first convolution of the run's model
  at::Tensor start_;        ///< the weight of conv_ at init
};

}  // namespace composer
