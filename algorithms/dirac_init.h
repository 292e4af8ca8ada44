// dirac_init: convolutions start by handing their input on, so that a deep network without
// residual connections trains from its first step (Zagoruyko and Komodakis 2017, "DiracNets",
// arXiv:1706.00388; partial as in Jordan 2024, arXiv:2404.00498).
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"

namespace composer {

/// Makes output channel i of `conv` its input channel i, for as many as both have; the other
/// filters stay. false, changing nothing, where no filter can do that: an even kernel, groups, or
/// less padding than keeps a border.
bool dirac_init(Conv2d& conv);

/// At init, for every convolution of a large enough kernel that is trained. Weights that are loaded
/// afterwards replace it.
class DiracInit : public Algorithm {
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

  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  void init(State& state) override;
  std::vector<std::string> report() const override { return changes_; }

 private:
  Params params_;
  std::vector<std::string> changes_;
};

}  // namespace composer
