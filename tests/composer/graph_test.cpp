#include "nn/network/graph.h"

#include <c10/core/InferenceMode.h>

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "base/error.h"
#include "nn/network/fused_norm.h"
#include "nn/network/layers.h"
#include "nn/network/model.h"
#include "nn/network/precision.h"
#include "replayed.h"

namespace composer::graph_test {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using test::replayed;
using Lines = std::vector<std::string>;

namespace {

/// A layer or block that computes what it is told.
class Told : public Layer {
 public:
  explicit Told(std::function<at::Tensor(const at::Tensor&)> function)
      : function_(std::move(function)) {}
  at::Tensor forward(const at::Tensor& input) override { return function_(input); }
  std::string describe() const override { return "Told"; }

 private:
  std::function<at::Tensor(const at::Tensor&)> function_;
};

/// conv, norm with ReLU, "body" in a block, pool, fc.
class Net : public Model {
 public:
  explicit Net(std::function<at::Tensor(const at::Tensor&)> body) {
    add<Conv2d>("conv", Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}});
    add<BatchNorm2d>("norm", 4).then(Activation::relu);
    add<Sequential>("layer",
                    std::vector<std::shared_ptr<Layer>>{std::make_shared<Told>(std::move(body))});
    add<AdaptiveAvgPool2d>("pool", 2);
    add<Linear>("fc", 16, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

at::Tensor evaluated(Model& model, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  const Unfused unfused;  // as a graph's operations are
  const bool training = model.is_training();
  model.eval();
  auto output = model.forward(input);
  model.train(training);
  return output;
}

const auto unchanged = [](const at::Tensor& x) { return x; };

std::string problem(const std::function<at::Tensor(const at::Tensor&)>& body) {
  Net net(body);
  try {
    record(net, at::randn({1, 3, 8, 8}));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a recorded pass is a list of operations with the tensors between them", "[graph]") {
  Net net(unchanged);
  const auto input = at::randn({2, 3, 9, 7});
  const auto graph = record(net, input);
  CHECK(test::lines(graph) ==
        Lines{"conv2d conv conv.weight conv.bias",
              "batch_norm norm norm.weight norm.bias norm.running_mean norm.running_var",
              "relu norm", "adaptive_avg_pool2d pool", "flatten pool",
              "linear fc fc.weight fc.bias"});
  const auto& conv = graph.operations[0];
  CHECK(conv.inputs[0] == graph.input);
  CHECK(graph.values[graph.input].shape == std::vector<int64_t>{2, 3, 9, 7});
  CHECK(graph.values[conv.output].shape == std::vector<int64_t>{2, 4, 7, 5});
  CHECK(graph.readers(conv.output) == std::vector<size_t>{1});
  CHECK(graph.readers(graph.output).empty());
  const auto& weight = graph.values[*conv.inputs[1]];
  CHECK(at::equal(weight.constant, net.named_parameters()["conv.weight"].detach()));
  CHECK_FALSE(weight.constant.requires_grad());
  CHECK_FALSE(weight.producer.has_value());
  CHECK(at::equal(replayed(graph, input), evaluated(net, input)));
  CHECK(at::equal(replayed(graph, input + 1), evaluated(net, input + 1)));
}

TEST_CASE("recording leaves the model, the input and the thread as they were", "[graph]") {
  Net net([](at::Tensor x) { return x.sub(1); });  // the pass ends with an error there
  net.train();
  const auto layers = net.modules(/*include_self=*/false);
  layers[1]->eval();
  const auto modes = [&] {
    std::vector<bool> all{net.is_training()};
    for (const auto& layer : layers) all.push_back(layer->is_training());
    return all;
  };
  const auto before = modes();
  const auto mean = net.named_buffers()["norm.running_mean"].clone();
  auto input = at::randn({2, 3, 8, 8});
  const auto given = input.clone();
  CHECK_THROWS_AS(record(net, input), UserError);
  CHECK(modes() == before);
  CHECK_FALSE(op::recorded());
  CHECK(at::GradMode::is_enabled());
  Net good(unchanged);
  record(good, input);
  CHECK(good.is_training());
  CHECK(at::equal(input, given));
  CHECK(at::equal(net.named_buffers()["norm.running_mean"], mean));
  CHECK_FALSE(op::recorded());
  CHECK(at::hasThreadLocalCallbacks() == false);
}

TEST_CASE("every operation can be recorded and replayed", "[graph]") {
  const auto weight = at::randn({4, 4, 1, 1}), square = at::randn({4, 4});
  Net net([=](const at::Tensor& x) {
    auto y = op::conv2d(x, op::standardize_weight(weight, {.eps = 1e-5}), {},
                        {.in_channels = 4, .out_channels = 4, .kernel = {1, 1}, .bias = false});
    y = op::group_norm(op::gelu(y), {}, {}, {.groups = 2});
    y = op::layer_norm(op::add_(op::scale(y, 0.5), x), {}, {}, {.features = 6});
    y = op::to_nchw(op::hardsigmoid(op::hardswish(op::silu(op::to_nhwc(y)))));
    y = op::max_pool2d(op::sigmoid(y), {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
    y = op::avg_pool2d(op::relu(y), {.kernel = {2, 2}, .stride = {1, 1}});
    y = op::add(y, op::cat({y, y}).defined() ? y : x);
    const auto gates = op::sigmoid_(op::linear(op::mean(y), square));
    const auto constant = op::constant(at::full({1}, 0.25f));
    return op::multiply(op::multiply(y, op::unsqueeze(gates)),
                        op::expand(constant, {.shape = {2, 4, 5, 5}}));
  });
  const auto input = at::randn({2, 3, 8, 8});
  const auto graph = record(net, input);
  CHECK(test::kinds(graph).size() == 25);
  CHECK(at::allclose(replayed(graph, input), evaluated(net, input), 1e-5, 1e-6));
}

TEST_CASE("kinds have the names of their functions", "[graph]") {
  CHECK(name(OperationKind::adaptive_avg_pool2d) == "adaptive_avg_pool2d");
  CHECK(name(OperationKind::conv2d) == "conv2d");
  CHECK(name(OperationKind::multiply) == "multiply");
  CHECK(name(OperationKind::unsqueeze) == "unsqueeze");
}

TEST_CASE("an operation in place makes a new value", "[graph]") {
  Net net([](const at::Tensor& x) {
    const auto y = op::scale(x, 2);
    return op::add(op::relu_(op::add_(y, x)), x);
  });
  const auto input = at::randn({2, 3, 8, 8});
  const auto graph = record(net, input);
  CHECK(at::equal(replayed(graph, input), evaluated(net, input)));
}

TEST_CASE("an operation that is not ours is named, with its layer", "[graph]") {
  CHECK_THAT(problem([](const at::Tensor& x) { return at::mul(x, 2); }),
             Equals("layer.0: at::mul is not one of the operations that a network's graph can have "
                    "(nn/network/operations.h lists them); use op::multiply, or op::scale "
                    "for a number"));
  CHECK_THAT(problem([](const at::Tensor& x) { return at::relu(x); }), Contains("use op::relu"));
  CHECK_THAT(problem([](at::Tensor x) { return x.mul_(2); }), Contains("at::mul_ is not one"));
  CHECK_THAT(problem([](const at::Tensor& x) { return op::multiply(x, x.variable_data()); }),
             Contains("layer.0: a tensor that it reads is the data() of another one"));
  CHECK_THAT(problem([](const at::Tensor& x) { return x.chunk(2, 1)[0]; }),
             Contains("layer.0: at::chunk is not one"));
  CHECK_THAT(problem([](const at::Tensor& x) { return at::leaky_relu(x).contiguous(); }),
             Contains("at::leaky_relu is not one"));
  CHECK_THAT(problem([](const at::Tensor& x) {
               return op::add(x, at::ones({4, 1, 1}));
             }),
             Contains("at::ones") && Contains("op::constant"));
  CHECK(problem([](const at::Tensor& x) {
          return op::add(x, op::constant(at::ones({4, 1, 1})));
        }).empty());
  CHECK_THAT(problem([](const at::Tensor& x) {
               op::relu_(op::flatten(x));
               return x;
             }),
             Contains("overwritten through another view"));
}

TEST_CASE("what does not reach the output is no matter", "[graph]") {
  const auto mask = at::ones({4, 1, 1});
  CHECK(problem([=](const at::Tensor& x) {
          const auto size = at::tanh(x).sizes().vec();
          const auto same = at::dropout(x.contiguous().to(at::kFloat), 0.5, /*train=*/false);
          return op::multiply(same, mask);
        }).empty());
}

TEST_CASE("an operation of the model itself has no layer", "[graph]") {
  class Scaled : public Net {
   public:
    Scaled() : Net(unchanged) {}
    at::Tensor forward(const at::Tensor& x) override { return through_slots(x) * 2; }
  };
  Scaled net;
  CHECK_THROWS_WITH(record(net, at::randn({1, 3, 8, 8})),
                    Contains("the model: at::mul is not one"));
}

TEST_CASE("a pass is recorded in the type of the weights, whatever surrounds it", "[graph]") {
  Net net(unchanged);
  const auto input = at::randn({1, 3, 8, 8});
  const auto plain = test::lines(record(net, input));
  {
    const Autocast autocast(Precision::amp_bf16, at::kCPU);
    const auto graph = record(net, input);
    CHECK(graph.values[graph.output].type == at::kFloat);
    CHECK(test::lines(graph) == plain);
  }
  {
    const c10::InferenceMode inference;
    CHECK(test::lines(record(net, input)) == plain);
  }
  net.to(at::kDouble);
  const auto graph = record(net, input);
  for (const auto& value : graph.values) CHECK(value.type == at::kDouble);
}

TEST_CASE("two threads record at once", "[graph]") {
  std::vector<Lines> seen(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      const int64_t times = i == 0 ? 1 : 3;
      Net net([=](at::Tensor x) {
        for (int64_t t = 0; t < times; ++t) x = op::relu(x);
        return x;
      });
      for (int pass = 0; pass < 20; ++pass)
        seen[i] = test::lines(record(net, at::randn({1, 3, 8, 8})));
    });
  for (auto& thread : threads) thread.join();
  CHECK(seen[0].size() == 7);
  CHECK(seen[1].size() == 9);
}

}  // namespace composer::graph_test
