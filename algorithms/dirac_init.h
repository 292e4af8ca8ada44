// dirac_init: convolutions start by handing their input on, so that a deep network without
// residual connections trains from its first step (Zagoruyko and Komodakis 2017, "DiracNets",
// arXiv:1706.00388; partial as in Jordan 2024, arXiv:2404.00498).
#pragma once

#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"

namespace composer {

/// Makes `conv` copy input channel i to output channel i, for all i that both have; the other
/// filters stay. Returns false and changes nothing if the convolution cannot copy: an even kernel,
/// groups, or padding that does not keep the size.
bool dirac_init(Conv2d& conv);

/// Changes, at init, every trained convolution whose kernel is large enough. Weights that are
/// loaded later replace the change.
class DiracInit : public UnrestrictedAlgorithm {
 public:
  struct Params {
    int64_t min_kernel = 3;

    void fields(auto&& f) {
      f("min_kernel", min_kernel, "convolutions with a smaller kernel are left alone", at_least(1));
    }
  };

  explicit DiracInit(Params params) : params_(params) {}

  static Compatibility compatibility() {
    return {.excludes = {{"factorize", "the identity would take the place of half a weight"}}};
  }

  void init(State& state) override;
  std::vector<std::string> report() const override { return changes_; }

 private:
  Params params_;
  std::vector<std::string> changes_;
};

}  // namespace composer
