#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// Three 3x3 convolutions, the second with stride 2, the third around a shortcut; pooling, a linear
/// head. Input [N, 3, H, W].
///
/// The layers stand in slots: surgery (blurpool, squeeze_excite, ...) finds and replaces them
/// there, and forward() calls what stands there now. A slot's name begins those of its weights:
/// "down.weight".
class TinyNet final : public Model {
 public:
  struct Params {
    int64_t width = 16;
    int64_t num_classes = 10;

    void fields(auto&& f) {
      f("width", width, "channels of the first convolution", in(1, 1024));
      f("num_classes", num_classes, "outputs", at_least(1));
    }
  };

  explicit TinyNet(const Params& params)
      : params_(params),
        stem_(add_conv("stem", 3, params.width, 1)),
        stem_norm_(add<BatchNorm2d>("stem_norm", params.width)),
        down_(add_conv("down", params.width, 2 * params.width, 2)),
        down_norm_(add<BatchNorm2d>("down_norm", 2 * params.width)),
        mix_(add_conv("mix", 2 * params.width, 2 * params.width, 1)),
        mix_norm_(add<BatchNorm2d>("mix_norm", 2 * params.width)),
        pool_(add<AdaptiveAvgPool2d>("pool")),
        head_(add<Linear>("head", 2 * params.width, params.num_classes)) {}

  at::Tensor forward(const at::Tensor& input) override {
    auto x = stem_norm_(stem_(input), {}, Activation::relu);
    x = down_norm_(down_(x), {}, Activation::relu);
    x = mix_norm_(mix_(x), x, Activation::relu);
    return head_(pool_(x));
  }

  int64_t num_classes() const override { return params_.num_classes; }
  int64_t stride() const override { return 2; }
  std::string describe() const override { return "tiny_net"; }

 private:
  Slot& add_conv(const std::string& name, int64_t from, int64_t to, int64_t stride) {
    return add<Conv2d>(name, Conv2dOptions{.in_channels = from,
                                           .out_channels = to,
                                           .kernel = {3, 3},
                                           .stride = {stride, stride},
                                           .padding = {1, 1},
                                           .bias = false});
  }

  Params params_;
  Slot &stem_, &stem_norm_, &down_, &down_norm_, &mix_, &mix_norm_, &pool_, &head_;
};

int main(int argc, char** argv) {
  registry().models.add<TinyNet>("tiny_net", "three convolutions and a linear head");
  return composer::main(argc, argv);
}
