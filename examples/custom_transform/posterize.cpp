#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// Keeps only the highest bits of the colours of some training images (Cubuk et al. 2019,
/// arXiv:1805.09501).
class Posterize final : public Algorithm {
 public:
  struct Params {
    double probability = 0.5;
    int64_t bits = 4;

    void fields(auto&& f) {
      f("probability", probability, "how often an image is changed", in(0, 1));
      f("bits", bits, "that stay of the eight", in(1, 8));
    }
  };

  explicit Posterize(Params params) : params_(params) {}

  SampleTransform sample_transform(const State&) override {
    return [params = params_](const MutableImage& image, const SampleKey& place) {
      Random random(place.seed, "posterize", place.epoch, place.sample);
      if (random.uniform() >= params.probability) return;
      const auto mask = static_cast<uint8_t>(0xFF << (8 - params.bits));
      uint8_t* const end = image.pixels + image.height * image.width * image.channels;
      for (uint8_t* value = image.pixels; value < end; ++value) *value &= mask;
    };
  }

 private:
  Params params_;
};

int main(int argc, char** argv) {
  registry().algorithms.add<Posterize>("posterize", "keeps the highest bits of colours");
  return composer::main(argc, argv);
}
