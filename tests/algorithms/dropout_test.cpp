#include "algorithms/dropout.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "algorithms/factorize.h"
#include "base/error.h"
#include "models/mnist_classifier.h"
#include "nn/network/graph.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::dropout_test {

using test::Fixture;
using test::TinyModel;

namespace {

using Paths = std::vector<std::string>;

Paths paths(Block& model, const Dropout::Params& params) {
  Paths all;
  for (const auto& replacement : apply_dropout(model, params, {})) all.push_back(replacement.path);
  return all;
}

}  // namespace

TEST_CASE("features are dropped at the rate, the others grow by as much", "[dropout]") {
  State state;
  const auto input = at::full({100, 64}, 3.f).requires_grad_();
  const auto output = dropout(input, 0.25, "fc", state);
  const auto kept = output != 0;
  CHECK(at::allclose(output, kept * 4.f));
  CHECK(kept.sum().item<int64_t>() == Approx(4800).margin(150));
  CHECK(kept.sum(0).max().item<int64_t>() < 100);  // no feature and no sample is spared
  CHECK(kept.sum(1).max().item<int64_t>() < 64);
  output.sum().backward();
  CHECK(at::allclose(input.grad(), kept * (4 / 3.f)));
  CHECK(at::equal(dropout(input, 0, "fc", state), input));
  CHECK(dropout(input.to(at::kBFloat16), 0.25, "fc", state).scalar_type() == at::kBFloat16);
}

TEST_CASE("features are drawn by seed, layer, batch and sample alone", "[dropout]") {
  State state;
  const auto input = at::ones({100, 16});
  const auto draw = [&](const at::Tensor& features) { return dropout(features, 0.5, "fc", state); };
  const auto whole = draw(input);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 3 : 1);
  CHECK(at::equal(draw(input), whole));
  at::set_num_threads(threads);
  CHECK_FALSE(at::equal(dropout(input, 0.5, "fc1", state), whole));
  state.first_sample = 40;
  CHECK(at::equal(draw(input.narrow(0, 40, 60)), whole.narrow(0, 40, 60)));
  state.first_sample = 0;
  state.time.batch = 1;
  CHECK_FALSE(at::equal(draw(input), whole));
  state.time.batch = 0;
  state.seed = 1;
  CHECK_FALSE(at::equal(draw(input), whole));
}

TEST_CASE("the head drops, or every linear layer", "[dropout]") {
  CHECK(Dropout::Params{}.drop_rate == 0.2);
  const auto mnist = [] { return MnistClassifier(MnistClassifier::Params{}); };
  auto head = mnist(), all = mnist();
  CHECK(paths(head, {}) == Paths{"fc2"});
  CHECK(paths(all, {.layers = "all"}) == Paths{"fc1", "fc2"});
  CHECK_THROWS_AS(paths(head, {}), UserError);
  Sequential convolution({std::make_shared<Conv2d>(Conv2dOptions{3, 4, {1, 1}})});
  CHECK_THROWS_AS(paths(convolution, {}), UserError);
}

TEST_CASE("a head that was split drops in front of its first half", "[dropout]") {
  const std::string layers = GENERATE("head", "all");
  TinyModel model;
  apply_factorization(model, {.min_features = 5, .latent_features = 4});
  CHECK(paths(model, {.layers = layers}) == Paths{"fc.0"});
}

TEST_CASE("dropout keeps weights, names, and what evaluation computes", "[dropout]") {
  Fixture f;
  auto& model = *f.state.model;
  const auto before = model.named_parameters();
  const auto plain = model.forward(f.state.batch.input);
  auto algorithm = std::make_unique<Dropout>(Dropout::Params{.drop_rate = 0.5});
  algorithm->init(f.state);
  CHECK_FALSE(at::equal(model.forward(f.state.batch.input), plain));

  const auto after = model.named_parameters();
  CHECK(after.keys() == before.keys());
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));
  const Graph graph = record(model, f.state.batch.input);
  CHECK(graph.operations.back().kind == OperationKind::linear);
  model.eval();
  CHECK(at::equal(model.forward(f.state.batch.input), plain));
  model.train();
  algorithm.reset();
  CHECK(at::equal(model.forward(f.state.batch.input), plain));
}

TEST_CASE("dropout changes the step, logs and reports", "[dropout]") {
  Fixture f;
  const double baseline = f.loss();
  Dropout algorithm({});
  algorithm.init(f.state);
  CHECK(f.loss() != Approx(baseline));
  CHECK(f.logged("dropout/num_dropout_layers") == 1);
  CHECK(algorithm.report() ==
        std::vector<std::string>{
            "fc: Linear(24, 5) -> DropoutLinear: dropout 0.200, then Linear(24, 5)"});
}

TEST_CASE("a rate of 1, which leaves no feature, is refused", "[dropout]") {
  CHECK(Dropout::Params{.drop_rate = 0.999}.check().empty());
  CHECK_FALSE(Dropout::Params{.drop_rate = 1}.check().empty());
}

}  // namespace composer::dropout_test
