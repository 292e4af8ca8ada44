// The program `composer` with a network that computes next to nothing, so that reading images is
// what takes the time. For end_to_end_input_bound.py.
#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// The image's means over an 8 x 8 grid, a linear layer. Input [N, 3, H, W].
class ThinNetwork final : public Model {
 public:
  struct Params {
    int64_t num_classes = 1000;

    void fields(auto&& f) { f("num_classes", num_classes, "outputs", at_least(1)); }
  };

  explicit ThinNetwork(const Params& params) : num_classes_(params.num_classes) {
    add<AdaptiveAvgPool2d>("pool", 8);
    add<Linear>("fc", 3 * 8 * 8, params.num_classes);
  }

  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return num_classes_; }
  std::string describe() const override { return "thin_network"; }

 private:
  int64_t num_classes_;
};

int main(int argc, char** argv) {
  registry().models.add<ThinNetwork>("thin_network", "next to no computation, for measuring");
  return composer::main(argc, argv);
}
