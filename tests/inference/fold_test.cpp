#include "inference/fold.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "networks.h"

namespace composer::fold_test {
namespace {

int64_t count(const Graph& graph, OperationKind kind) {
  return std::ranges::count(graph.operations, kind, &Graph::Operation::kind);
}

TEST_CASE("a folded network computes the same, with any number of images", "[inference]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const auto model = test::settled(given);
    const auto graph = folded(record(*model, test::random_images(given, 1)));
    // Behind a gate, a norm's offset is not the convolution's; before one, there is none to take
    // it.
    if (given.name != "squeeze_excite" && given.name != "wide_resnet_16_4")
      CHECK(count(graph, OperationKind::batch_norm) == 0);
    CHECK(count(graph, OperationKind::standardize_weight) == 0);
    CHECK(count(graph, OperationKind::scale) == 0);
    const auto images = test::random_images(given, 3);
    const at::NoGradGuard no_grad;
    CHECK(test::relative(test::computed(graph, images), model->forward(images)) < 1e-5);
  }
}

TEST_CASE("a norm whose convolution has other readers stays", "[inference]") {
  class Net : public Model {
   public:
    Net()
        : conv_(add<Conv2d>("conv",
                            Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {1, 1}})),
          norm_(add<BatchNorm2d>("norm", 4)) {}
    at::Tensor forward(const at::Tensor& input) override {
      const auto x = conv_(input);
      return op::mean(op::add(norm_(x), x));
    }
    int64_t num_classes() const override { return 4; }

   private:
    Slot& conv_;
    Slot& norm_;
  };
  Net net;
  net.eval();
  const auto graph = folded(record(net, at::zeros({1, 3, 4, 4})));
  CHECK(count(graph, OperationKind::batch_norm) == 1);
  const auto images = at::randn({2, 3, 4, 4});
  const at::NoGradGuard no_grad;
  CHECK(test::relative(test::computed(graph, images), net.forward(images)) < 1e-6);
}

}  // namespace
}  // namespace composer::fold_test
