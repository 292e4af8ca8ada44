#include "nn/network/surgery.h"

#include <catch2/catch.hpp>

#include "nn/network/layers.h"
#include "nn/network/model.h"

namespace composer::surgery_test {
namespace {

/// A network as a user would write it, with one layer under two names.
class UserNet : public Model {
 public:
  explicit UserNet(std::shared_ptr<Layer> shared = std::make_shared<ReLU>())
      : conv_(add<Conv2d>("conv",
                          Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {1, 1}})),
        relu_(add("relu", shared)),
        body_(add<Sequential>(
            "body", std::vector<std::shared_ptr<Layer>>{std::make_shared<BatchNorm2d>(4), shared})),
        pool_(add<AdaptiveAvgPool2d>("pool")) {}

  at::Tensor forward(const at::Tensor& input) override { return pool_(body_(relu_(conv_(input)))); }
  int64_t num_classes() const override { return 4; }

 private:
  Slot &conv_, &relu_, &body_, &pool_;
};

class Negate : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return -input; }
  std::string describe() const override { return "Negate"; }
};

class Doubled : public Conv2d {
 public:
  explicit Doubled(const Conv2d& original) : Conv2d(original) {}
  at::Tensor forward(const at::Tensor& input) override { return Conv2d::forward(input) * 2; }
  std::string describe() const override { return "Doubled"; }
};

TEST_CASE("surgery visits every slot breadth first, a shared layer once", "[surgery]") {
  UserNet net;
  std::vector<std::string> visited;
  const auto replacements = replace_layers(net, [&](const std::string& path, Layer&) {
    visited.push_back(path);
    return std::shared_ptr<Layer>();
  });
  CHECK(replacements.empty());
  CHECK(visited == std::vector<std::string>{"conv", "relu", "body", "pool", "body.0"});
}

TEST_CASE("a replacement takes part in the forward pass and keeps the parameter names",
          "[surgery]") {
  UserNet net;
  net.eval();
  const auto input = at::randn({2, 3, 5, 5});
  const auto names = net.named_parameters().keys();
  const auto weight = net.named_parameters()["conv.weight"];
  const auto before = net.forward(input);

  const auto replacements =
      replace_layers(net, [](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
        if (auto* conv = dynamic_cast<Conv2d*>(&layer)) return std::make_shared<Doubled>(*conv);
        return nullptr;
      });
  REQUIRE(replacements.size() == 1);
  CHECK(replacements[0].path == "conv");
  CHECK(replacements[0].before == "Conv2d(3, 4, 1x1)");
  CHECK(replacements[0].after == "Doubled");
  CHECK(at::allclose(net.forward(input), before * 2));
  CHECK(net.named_parameters().keys() == names);
  CHECK(net.named_parameters()["conv.weight"].is_same(weight));
}

TEST_CASE("a layer in several slots is replaced in all of them by one layer", "[surgery]") {
  UserNet net;
  net.eval();
  int asked = 0;
  const auto replacements =
      replace_layers(net, [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
        if (dynamic_cast<ReLU*>(&layer) == nullptr) return nullptr;
        ++asked;
        return std::make_shared<Negate>();
      });
  CHECK(asked == 1);
  REQUIRE(replacements.size() == 2);
  CHECK(replacements[0].path == "relu");
  CHECK(replacements[1].path == "body.1");
  CHECK(replacements[1].before == "ReLU");
  auto& body = dynamic_cast<Sequential&>(*net.slots()[2].layer());
  CHECK(body.slots()[1].layer() == net.slots()[1].layer());
}

TEST_CASE("a replaced block is not entered", "[surgery]") {
  UserNet net;
  const auto replacements =
      replace_layers(net, [](const std::string& path, Layer&) -> std::shared_ptr<Layer> {
        if (path == "body") return std::make_shared<Negate>();
        if (path.starts_with("body.")) throw std::logic_error("entered a layer that was replaced");
        return nullptr;
      });
  CHECK(replacements.size() == 1);
}

}  // namespace
}  // namespace composer::surgery_test
