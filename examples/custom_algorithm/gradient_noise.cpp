#include <ATen/CPUGeneratorImpl.h>

#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// Adds Gaussian noise to the gradients, fading as training proceeds (Neelakantan et al. 2015,
/// arXiv:1511.06807).
class GradientNoise final : public Algorithm {
 public:
  struct Params {
    double scale = 0.01;
    Time until{0.5, TimeUnit::duration};

    void fields(auto&& f) {
      f("scale", scale, "standard deviation of the noise at the first step", in(0.0, 1.0));
      f("until", until, "when the noise stops");
    }
  };

  explicit GradientNoise(Params params) : params_(params) {}

  void after_train_batch(State& state) override {
    const auto batch = static_cast<double>(state.time.batch);
    if (batch >= state.run_length.batches(params_.until)) return;
    const double deviation = params_.scale / std::pow(1 + batch, 0.55 / 2);
    // One generator for each batch: a resumed run draws what the interrupted one would have drawn.
    const uint64_t seed = Random(state.seed, "gradient_noise", 0, state.time.batch).bits();
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    for (auto& gradient : state.optimizer->gradients())
      gradient.add_(at::randn(gradient.sizes(), generator).to(gradient.device()), deviation);
    state.logger->log("gradient_noise/deviation", deviation);
  }

 private:
  Params params_;
};

int main(int argc, char** argv) {
  registry().algorithms.add<GradientNoise>("gradient_noise", "adds fading noise to gradients");
  return composer::main(argc, argv);
}
