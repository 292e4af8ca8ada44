#include "algorithms/augmix.h"

#include "algorithms/augmentation/primitives.h"

namespace composer {
namespace {

/// Draws n weights that add up to 1 from the symmetric Dirichlet distribution.
std::vector<double> dirichlet(Random& random, double alpha, int64_t n) {
  std::vector<double> weights;
  double rest = 1;
  for (int64_t others = n - 1; others > 0; --others) {
    weights.push_back(rest * random.beta(alpha, alpha * static_cast<double>(others)));
    rest -= weights.back();
  }
  weights.push_back(rest);
  return weights;
}

}  // namespace

AugMixDraw draw_augmix(Random& random, ImageSize size, const AugMix::Params& params) {
  AugMixDraw draw;
  draw.weights = dirichlet(random, params.alpha, params.width);
  draw.mixing = random.beta(params.alpha, params.alpha);
  for (int64_t chain = 0; chain < params.width; ++chain) {
    const int64_t depth = params.depth > 0 ? params.depth : 1 + random.below(3);
    auto& steps = draw.chains.emplace_back(static_cast<size_t>(depth));
    for (auto& step : steps)
      step = draw_primitive(random, size, static_cast<double>(params.severity),
                            params.augmentation_set);
  }
  return draw;
}

AugMix::AugMix(const Params& params)
    : DrawnPerImage("augmix.image", params.where, [params](Random& random, ImageSize size) {
        return draw_augmix(random, size, params);
      }) {}

}  // namespace composer
