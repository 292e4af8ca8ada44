#include "algorithms/stochastic_depth.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/random.h"
#include "models/efficientnet.h"
#include "models/resnet_cifar.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::stochastic_depth_test {

using test::Fixture;
using test::TinyModel;
using Params = StochasticDepth::Params;

namespace {

/// Residual branch w * x, with or without a shortcut 2 * x.
class ScaleBlock : public ResidualBlock {
 public:
  explicit ScaleBlock(bool projected) {
    scale_ = &add("scale", conv());
    if (projected) projection_ = &add("downsample", conv());
    at::NoGradGuard no_grad;
    dynamic_cast<Conv2d&>(*scale_->layer()).weight.fill_(10);
    if (projected) dynamic_cast<Conv2d&>(*projection_->layer()).weight.fill_(2);
  }
  at::Tensor branch(const at::Tensor& input) override { return input; }
  Slot& last() override { return *scale_; }
  at::Tensor shortcut(const at::Tensor& input) override {
    return projection_ == nullptr ? input : (*projection_)(input);
  }

 private:
  static std::shared_ptr<Layer> conv() {
    return std::make_shared<Conv2d>(
        Conv2dOptions{.in_channels = 1, .out_channels = 1, .kernel = {1, 1}, .bias = false});
  }

  Slot* scale_ = nullptr;
  Slot* projection_ = nullptr;
};

using Draw = StochasticBlock::Draw;

struct OneBlock {
  explicit OneBlock(Draw draw, double rate, bool projected = false, bool scale_by_keep = false)
      : block(std::make_shared<ScaleBlock>(projected), draw, rate, 0, draws, scale_by_keep) {}

  /// What each of `samples` ones becomes.
  std::vector<float> operator()(int64_t samples) {
    const auto output = block.forward(at::ones({samples, 1, 1, 1})).flatten();
    return {output.data_ptr<float>(), output.data_ptr<float>() + samples};
  }

  State state;
  std::shared_ptr<DepthDraws> draws = std::make_shared<DepthDraws>(DepthDraws{.state = &state});
  StochasticBlock block;
};

Fixture residual_fixture() {
  Fixture f;
  f.state.model = std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {}});
  return f;
}

}  // namespace

TEST_CASE("a block without activation goes without it when it is dropped too",
          "[stochastic_depth]") {
  class Plain final : public ScaleBlock {
   public:
    using ScaleBlock::ScaleBlock;
    Activation activation() const override { return Activation::none; }
  };
  const State state;
  const auto draws = std::make_shared<DepthDraws>(DepthDraws{.state = &state});
  const auto result = [&](bool projected, Draw draw, double rate, bool training) {
    StochasticBlock block(std::make_shared<Plain>(projected), draw, rate, 0, draws);
    block.train(training);
    return block.forward(at::full({1, 1, 1, 1}, -1.0)).item<float>();
  };
  for (const auto draw : {Draw::block, Draw::sample}) {
    CHECK(result(false, draw, 0, true) == -11);
    CHECK(result(false, draw, 1, true) == -1);
    CHECK(result(true, draw, 1, true) == -2);
    CHECK(result(false, draw, 0.5, false) == -6);
  }
}

TEST_CASE("a dropped block is its shortcut, a kept one the sum", "[stochastic_depth]") {
  const bool projected = GENERATE(false, true);
  const float shortcut = projected ? 2 : 1;
  CHECK(OneBlock(Draw::block, 1, projected)(2) == std::vector{shortcut, shortcut});
  CHECK(OneBlock(Draw::block, 0, projected)(2) == std::vector{10 + shortcut, 10 + shortcut});
  CHECK(OneBlock(Draw::sample, 1, projected)(2) == std::vector{shortcut, shortcut});

  const auto draw = GENERATE(Draw::block, Draw::sample);
  OneBlock quarter(draw, 0.25, projected);
  quarter.block.eval();
  CHECK(quarter(1) == std::vector{7.5f + shortcut});
  quarter.draws->warmup = {5, TimeUnit::batch};
  quarter.state.time.batch = 2;
  CHECK(quarter(1)[0] == Approx(9 + shortcut));
  quarter.state.time.batch = 0;  // weights of a file, which are those of a run's end
  CHECK(quarter(1)[0] == Approx(7.5 + shortcut));
}

TEST_CASE("with scale_by_keep training scales kept branches, and evaluation does not",
          "[stochastic_depth]") {
  const auto draw = GENERATE(Draw::block, Draw::sample);
  OneBlock block(draw, 0.25, /*projected=*/false, /*scale_by_keep=*/true);
  const float kept = 1 + 10 / 0.75f;
  int64_t dropped = 0;
  for (int64_t batch = 0; batch < 200; ++batch) {
    block.state.time.batch = batch;
    for (const float value : block(4)) {
      dropped += value == 1;
      if (value != 1) REQUIRE(value == Approx(kept));
    }
  }
  CHECK(dropped == Approx(200).margin(100));
  block.block.eval();
  CHECK(block(1) == std::vector{11.0f});
  block.block.train();
  block.draws.reset();
  CHECK(block(1) == std::vector{11.0f});
}

TEST_CASE("a network that outlives its run drops nothing", "[stochastic_depth]") {
  OneBlock block(GENERATE(Draw::block, Draw::sample), 0.25);
  block.draws.reset();
  CHECK(block(2) == std::vector{8.5f, 8.5f});

  auto f = residual_fixture();
  const auto model = f.state.model;
  auto depth = std::make_unique<StochasticDepth>(Params{.drop_rate = 0.9});
  depth->init(f.state);
  model->eval();
  const auto outputs = model->forward(f.state.batch.input);
  depth.reset();
  CHECK(at::equal(model->forward(f.state.batch.input), outputs));
}

TEST_CASE("batches are dropped at the rate, and by the batch alone", "[stochastic_depth]") {
  OneBlock block(Draw::block, 0.3);
  int dropped = 0;
  for (int64_t batch = 0; batch < 1000; ++batch) {
    block.state.time.batch = batch;
    const auto values = block(3);
    REQUIRE(values == block(3));
    REQUIRE((values == std::vector<float>(3, 1) || values == std::vector<float>(3, 11)));
    dropped += values[0] == 1;
  }
  CHECK(dropped == Approx(300).margin(50));
}

TEST_CASE("samples are dropped at the rate, alike in microbatches", "[stochastic_depth]") {
  OneBlock block(Draw::sample, 0.3);
  const auto whole = block(1000);
  CHECK(std::ranges::count(whole, 1.0f) == Approx(300).margin(50));
  CHECK(std::ranges::count(whole, 1.0f) + std::ranges::count(whole, 11.0f) == 1000);
  block.state.first_sample = 400;
  CHECK(block(600) == std::vector(whole.begin() + 400, whole.end()));
  block.state.first_sample = 0;
  block.state.time.batch = 1;
  CHECK(block(1000) != whole);
}

TEST_CASE("the algorithm gives microbatches their place in the batch", "[stochastic_depth]") {
  const auto outputs = [](int64_t parts) {
    auto f = residual_fixture();
    StochasticDepth depth({.stochastic_method = "sample", .drop_rate = 0.9});
    depth.init(f.state);
    f.state.model->train();
    for (auto& module : f.state.model->modules())
      if (dynamic_cast<BatchNorm2d*>(module.get()) != nullptr) module->eval();
    f.state.time.batch = 5;
    depth.after_dataloader(f.state);
    std::vector<at::Tensor> all;
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& microbatch : Batch(f.state.batch).split(parts)) {
        all.push_back(f.state.model->forward(microbatch.input));
        f.state.first_sample = (f.state.first_sample + microbatch.samples()) % 4;
      }
    return at::cat(all);
  };
  const auto whole = outputs(1);
  CHECK(at::allclose(outputs(2), whole, 1e-4, 1e-5));
  CHECK(at::equal(whole.narrow(0, 0, 4), whole.narrow(0, 4, 4)));
}

TEST_CASE("rates grow with depth or are uniform", "[stochastic_depth]") {
  CHECK(StochasticDepth::rate(0, 4, {}) == Approx(0.05));
  CHECK(StochasticDepth::rate(3, 4, {}) == Approx(0.2));
  CHECK(StochasticDepth::rate(0, 4, {.drop_distribution = "uniform"}) == Approx(0.2));
  CHECK(StochasticDepth::rate(0, 4, {.drop_distribution = "linear_from_zero"}) == 0);
  CHECK(StochasticDepth::rate(3, 4, {.drop_distribution = "linear_from_zero"}) == Approx(0.2));
  CHECK(StochasticDepth::rate(0, 1, {.drop_distribution = "linear_from_zero"}) == 0);
  CHECK(StochasticDepth::rate(0, 4, {.drop_distribution = "linear_below"}) == 0);
  CHECK(StochasticDepth::rate(3, 4, {.drop_distribution = "linear_below"}) == Approx(0.15));
}

TEST_CASE("blocks without a shortcut count as timm and torchvision count them",
          "[stochastic_depth]") {
  const auto rates = [](const std::string& distribution) {
    EfficientNet model({.num_classes = 10});
    std::vector<double> found;
    for (const auto& one :
         apply_stochastic_depth(model, {.drop_rate = 0.16, .drop_distribution = distribution}, {}))
      found.push_back(std::stod(one.after.substr(one.after.find("drop rate ") + 10)));
    return found;
  };
  // Of 16 blocks 9 have a shortcut.
  CHECK_THAT(rates("linear_below"),
             Catch::Approx(std::vector{.02, .04, .06, .07, .09, .10, .12, .13, .14}).margin(.0011));
  CHECK_THAT(rates("linear"),
             Catch::Approx(std::vector{.017, .035, .053, .071, .088, .106, .124, .142, .160})
                 .margin(.0011));
}

TEST_CASE("rates warm up, reach their values and stay there", "[stochastic_depth]") {
  Fixture f(100);
  const auto ramp = [&](int64_t batch, Time warmup) {
    f.state.time.batch = batch;
    return StochasticDepth::ramp(f.state, warmup);
  };
  CHECK(ramp(0, {0, TimeUnit::duration}) == 1);
  for (const Time warmup : {Time{0.2, TimeUnit::duration}, Time{20, TimeUnit::batch}}) {
    CHECK(ramp(0, warmup) == 0);
    CHECK(ramp(5, warmup) == Approx(0.25));
    CHECK(ramp(20, warmup) == Approx(1));
    CHECK(ramp(99, warmup) == 1);
  }
}

TEST_CASE("stochastic depth keeps weights, names and later surgery", "[stochastic_depth]") {
  auto f = residual_fixture();
  auto& model = *f.state.model;
  const auto before = model.named_parameters();
  const auto buffers = model.named_buffers().keys();
  StochasticDepth depth({.drop_rate = 0});
  model.eval();
  const auto outputs = model.forward(f.state.batch.input);
  depth.init(f.state);
  CHECK(f.logged("stochastic_depth/num_stochastic_layers") == 9);
  REQUIRE(depth.report().size() == 9);
  CHECK(depth.report()[3] ==
        "layer2.0: BasicBlock(16, 32, stride 2) -> StochasticBlock: BasicBlock(16, 32, stride 2), "
        "drop rate 0.000");

  const auto after = model.named_parameters();
  CHECK(after.keys() == before.keys());
  CHECK(model.named_buffers().keys() == buffers);
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));
  model.eval();
  CHECK(at::equal(model.forward(f.state.batch.input), outputs));

  const auto replaced =
      replace_layers(model, [](const std::string& path, Layer&) -> std::shared_ptr<Layer> {
        return path == "layer1.0.bn2" ? std::make_shared<BatchNorm2d>(16) : nullptr;
      });
  CHECK(replaced.size() == 1);
  at::NoGradGuard no_grad;
  model.named_parameters()["layer1.0.bn2.bias"].fill_(3);
  model.eval();
  CHECK_FALSE(at::allclose(model.forward(f.state.batch.input), outputs));
}

TEST_CASE("a step drops blocks, whose weights then have no gradient", "[stochastic_depth]") {
  auto f = residual_fixture();
  StochasticDepth depth({.drop_rate = 1, .drop_distribution = "uniform"});
  depth.init(f.state);
  depth.after_dataloader(f.state);
  const auto loss =
      f.state.model->loss(f.state.model->forward(f.state.batch.input), f.state.batch.target);
  loss.backward();
  const auto parameters = f.state.model->named_parameters();
  CHECK_FALSE(parameters["layer1.0.conv1.weight"].grad().defined());
  CHECK(parameters["layer2.0.downsample.0.weight"].grad().defined());
  CHECK(f.logged("stochastic_depth/drop_rate") == 1);
}

TEST_CASE("draws depend on nothing but the time", "[stochastic_depth]") {
  const auto loss_at_batch_7 = [](bool from_the_start) {
    auto f = residual_fixture();
    StochasticDepth depth({.drop_rate = 0.8, .drop_warmup = {0.1, TimeUnit::duration}});
    depth.init(f.state);
    for (int64_t batch = from_the_start ? 0 : 7; batch <= 7; ++batch) {
      f.state.time.batch = batch;
      depth.after_dataloader(f.state);
    }
    return f.loss();
  };
  CHECK(loss_at_batch_7(true) == loss_at_batch_7(false));
}

TEST_CASE("a warmup in seconds is refused", "[stochastic_depth]") {
  CHECK(Params{}.check().empty());
  CHECK_FALSE(Params{.drop_warmup = {5, TimeUnit::second}}.check().empty());
}

TEST_CASE("stochastic depth needs a residual network", "[stochastic_depth]") {
  TinyModel model;
  CHECK_THROWS_AS(apply_stochastic_depth(model, {}, std::make_shared<DepthDraws>()), UserError);
}

}  // namespace composer::stochastic_depth_test
