#include "algorithms/whitening.h"

#include <catch2/catch.hpp>

#include "algorithms/dirac_init.h"
#include "algorithms/progressive_resizing.h"
#include "algorithms/squeeze_excite.h"
#include "base/error.h"
#include "composer/loop/engine.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::whitening_test {

using composer::test::Fixture;
using composer::test::TinyModel;

namespace {

/// Second moments of what `conv` without its bias makes of the images, [out, out].
at::Tensor output_moments(const Conv2d& conv, const at::Tensor& images) {
  const auto values =
      at::conv2d(images, conv.weight, {}, conv.options().stride).transpose(0, 1).flatten(1);
  return at::mm(values, values.t()) / values.size(1);
}

/// Images whose neighbours are alike and whose channels go together, as in photographs.
at::Tensor smooth_images(int64_t n, int64_t side) {
  at::manual_seed(5);
  const auto grey = at::avg_pool2d(at::randn({n, 1, side + 3, side + 3}), 4, 1);
  return grey + 0.2 * at::avg_pool2d(at::randn({n, 3, side + 1, side + 1}), 2, 1) + 0.3;
}

}  // namespace

TEST_CASE("whitened outputs are uncorrelated, of variance 1, and come with their negatives",
          "[whitening]") {
  const auto images = smooth_images(40, 12);
  Conv2d conv({.in_channels = 3, .out_channels = 24, .kernel = {2, 2}});
  whiten(conv, images, 1e-9);
  CHECK(at::equal(conv.weight.narrow(0, 0, 12), -conv.weight.narrow(0, 12, 12)));
  const auto moments = output_moments(conv, images).narrow(0, 0, 12).narrow(1, 0, 12);
  CHECK((moments - at::eye(12)).abs().max().item<double>() < 1e-3);

  // The first filter goes with the direction of most variance: the mean of a patch.
  CHECK((conv.weight[0] > 0).all().item<bool>());
  CHECK(conv.weight[0].norm().item<double>() < conv.weight[11].norm().item<double>());
}

TEST_CASE("filters have the sign that makes their largest number positive", "[whitening]") {
  const auto filters = whitening_filters(smooth_images(40, 12), {2, 2}, {1, 1}, 1e-9).flatten(1);
  CHECK(at::equal(filters.amax(1), filters.abs().amax(1)));
}

TEST_CASE("eps bounds the filters of directions without variance", "[whitening]") {
  const auto images = at::ones({4, 1, 6, 6});  // every patch is (1, 1, 1, 1)
  const auto filters = whitening_filters(images, {2, 2}, {1, 1}, 0.01);
  CHECK(filters.sizes() == at::IntArrayRef{4, 1, 2, 2});
  CHECK(at::allclose(filters[0].abs(), at::full({1, 2, 2}, 0.5 / std::sqrt(4.01))));
  for (int i = 1; i < 4; ++i)
    CHECK(filters[i].norm().item<double>() == Approx(1 / std::sqrt(0.01)));
}

TEST_CASE("a convolution of few or of many outputs takes what fits", "[whitening]") {
  const auto images = smooth_images(4, 16);
  Conv2d odd({.in_channels = 3, .out_channels = 5, .kernel = {3, 3}, .stride = {2, 2}});
  const auto last = odd.weight[4].clone();
  whiten(odd, images, 1e-3);
  CHECK(at::equal(odd.weight.narrow(0, 0, 2), -odd.weight.narrow(0, 2, 2)));
  CHECK(at::equal(odd.weight[4], last));
  Conv2d wide({.in_channels = 3, .out_channels = 40, .kernel = {2, 2}});
  const auto rest = wide.weight.narrow(0, 24, 16).clone();
  whiten(wide, images, 1e-3);
  CHECK(at::equal(wide.weight.narrow(0, 24, 16), rest));
  Conv2d single({.in_channels = 3, .out_channels = 1, .kernel = {2, 2}});
  whiten(single, images, 1e-3);
  Conv2d grouped({.in_channels = 4, .out_channels = 4, .kernel = {2, 2}, .groups = 2});
  CHECK_THROWS_AS(whiten(grouped, at::randn({1, 4, 8, 8}), 1e-3), UserError);
}

TEST_CASE("the first layer is filled at the first batch, never trained, its bias for a while",
          "[whitening]") {
  Fixture f(10);
  Whitening whitening({.train_bias = {4, TimeUnit::batch}});
  whitening.init(f.state);
  whitening.fit_start(f.state);
  const auto parameters = f.state.model->named_parameters();
  const auto& weight = parameters["conv1.weight"];
  const auto& bias = parameters["conv1.bias"];
  CHECK_FALSE(weight.requires_grad());
  const auto before = weight.clone();
  whitening.after_dataloader(f.state);
  CHECK_FALSE(at::equal(weight, before));
  CHECK(at::allclose(weight.narrow(0, 0, 1),
                     whitening_filters(f.state.batch.input, {3, 3}, {2, 2}, 5e-4).narrow(0, 0, 1)));

  const auto filled = weight.clone();
  f.state.time.batch = 3;
  whitening.after_dataloader(f.state);
  CHECK(bias.requires_grad());
  f.state.model->loss(f.state.model->forward(f.state.batch.input), f.state.batch.target).backward();
  CHECK(bias.grad().defined());
  f.state.time.batch = 4;
  whitening.after_dataloader(f.state);
  CHECK_FALSE(bias.requires_grad());
  CHECK_FALSE(bias.grad().defined());
  CHECK(at::equal(weight, filled));
  CHECK(whitening.report().size() == 1);
}

TEST_CASE("whitening uses at most `samples` images", "[whitening]") {
  Fixture f, one;
  one.state.batch.input = f.state.batch.input.slice(0, 0, 2);
  for (auto* fixture : {&f, &one}) {
    Whitening whitening({.samples = 2});
    whitening.init(fixture->state);
    whitening.fit_start(fixture->state);
    whitening.after_dataloader(fixture->state);
  }
  CHECK(at::equal(f.state.model->named_parameters()["conv1.weight"],
                  one.state.model->named_parameters()["conv1.weight"]));
}

TEST_CASE("whitening fills a first convolution that has gates", "[whitening]") {
  Fixture f, plain;
  Whitening whitening({}), alone({});
  whitening.init(f.state);
  apply_squeeze_excite(*f.state.model, {.latent_channels = 2, .min_channels = 1}, 17);
  alone.init(plain.state);
  for (auto [algorithm, state] : {std::pair{&whitening, &f.state}, {&alone, &plain.state}}) {
    algorithm->fit_start(*state);
    algorithm->after_dataloader(*state);
  }
  const auto weight = f.state.model->named_parameters()["conv1.weight"];
  CHECK_FALSE(weight.requires_grad());
  CHECK(at::equal(weight, plain.state.model->named_parameters()["conv1.weight"]));
}

TEST_CASE("whitening fills the first convolution where others start as the identity",
          "[whitening][dirac_init]") {
  Fixture f, plain;
  Whitening whitening({}), alone({});
  whitening.init(f.state);
  DiracInit dirac_init({});
  dirac_init.init(f.state);
  CHECK_FALSE(dirac_init.report().empty());
  alone.init(plain.state);
  for (auto [algorithm, state] : {std::pair{&whitening, &f.state}, {&alone, &plain.state}}) {
    algorithm->fit_start(*state);
    algorithm->after_dataloader(*state);
  }
  CHECK(at::equal(f.state.model->named_parameters()["conv1.weight"],
                  plain.state.model->named_parameters()["conv1.weight"]));
}

TEST_CASE("a first convolution that was loaded stays as it is", "[whitening]") {
  Fixture f;
  Whitening whitening({});
  whitening.init(f.state);
  const auto weight = f.state.model->named_parameters()["conv1.weight"];
  weight.detach().fill_(0.25);  // as load_path does, after init
  whitening.fit_start(f.state);
  whitening.after_dataloader(f.state);
  CHECK((weight == 0.25).all().item<bool>());
  CHECK_FALSE(weight.requires_grad());
}

TEST_CASE("whitening acts before what else changes the images, however they are listed",
          "[whitening]") {
  Engine engine;
  engine.add(Member<Algorithm>{"progressive_resizing",
                               std::make_shared<ProgressiveResizing>(ProgressiveResizing::Params{}),
                               subscriptions<ProgressiveResizing>()});
  engine.add(Member<Algorithm>{"whitening", std::make_shared<Whitening>(Whitening::Params{}),
                               subscriptions<Whitening>()});
  CHECK(engine.order(Event::after_dataloader) ==
        std::vector<std::string>{"whitening", "progressive_resizing"});
}

TEST_CASE("whitening's times of other units are refused", "[whitening]") {
  CHECK(Whitening::Params{}.check().empty());
  CHECK_FALSE(Whitening::Params{.train_bias = {5, TimeUnit::second}}.check().empty());
}

}  // namespace composer::whitening_test
