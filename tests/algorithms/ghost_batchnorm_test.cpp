#include "algorithms/ghost_batchnorm.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "models/resnet_cifar.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::ghost_batchnorm_test {

using test::Fixture;
using test::TinyModel;

TEST_CASE("batches are cut evenly, never to single samples", "[ghost_batchnorm]") {
  CHECK(ghost_batches(64, 32) == 2);
  CHECK(ghost_batches(65, 32) == 3);
  CHECK(ghost_batches(33, 32) == 2);
  CHECK(ghost_batches(32, 32) == 1);
  CHECK(ghost_batches(7, 32) == 1);
  CHECK(ghost_batches(5, 2) == 2);
  CHECK(ghost_batches(1, 2) == 1);
}

TEST_CASE("pieces are normalised by themselves", "[ghost_batchnorm]") {
  const BatchNorm2d norm(1);
  GhostBatchNorm2d ghost(norm, 2);
  const auto output = ghost.forward(at::tensor({1.f, 3.f, 10.f, 30.f}).view({4, 1, 1, 1}));
  CHECK(at::allclose(output.flatten(), at::tensor({-1.f, 1.f, -1.f, 1.f}), 1e-4, 1e-4));
  // Momentum 0.1 / 2 a piece: means 2 and 20, unbiased variances 2 and 200.
  CHECK(norm.running_mean.item<float>() == Approx(0.95 * (0.05 * 2) + 0.05 * 20));
  CHECK(norm.running_var.item<float>() == Approx(0.95 * (0.95 + 0.05 * 2) + 0.05 * 200));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("small batches and evaluation are normalised as ever", "[ghost_batchnorm]") {
  const bool training = GENERATE(true, false);
  const int64_t samples = training ? 3 : 9;
  BatchNorm2d plain(4), original(4);
  GhostBatchNorm2d ghost(original, 4);
  plain.train(training);
  ghost.train(training);
  const auto input = at::randn({samples, 4, 3, 3});
  CHECK(at::equal(ghost.forward(input), plain.forward(input)));
  CHECK(at::equal(original.running_var, plain.running_var));
}

TEST_CASE("uneven pieces keep order and memory format", "[ghost_batchnorm]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  GhostBatchNorm2d ghost(BatchNorm2d(4), 3);
  const auto input = at::randn({7, 4, 5, 5}).contiguous(format);
  const auto output = ghost.forward(input);
  CHECK(output.is_contiguous(format));
  CHECK(at::allclose(output.narrow(0, 0, 3), BatchNorm2d(4).forward(input.narrow(0, 0, 3)), 1e-4,
                     1e-5));
  CHECK(at::allclose(output.narrow(0, 3, 2), BatchNorm2d(4).forward(input.narrow(0, 3, 2)), 1e-4,
                     1e-5));
}

TEST_CASE("each piece takes its share of what follows the norm", "[ghost_batchnorm]") {
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const BatchNorm2d norm(4);
  GhostBatchNorm2d ghost(norm, 3);
  const auto input = at::randn({7, 4, 5, 5}), residual = at::randn({7, 4, 5, 5});
  const auto expected = followed(ghost.forward(input), residual, activation);
  CHECK(at::allclose(ghost.forward(input, residual, activation), expected, 1e-5, 1e-6));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 2);
}

TEST_CASE("ghost batchnorm keeps weights and names and changes the step", "[ghost_batchnorm]") {
  Fixture f;
  f.state.model = std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {}});
  auto& model = *f.state.model;
  const auto before = model.named_parameters();
  const auto buffers = model.named_buffers().keys();
  const double baseline = f.loss();
  GhostBatchNorm ghost({.ghost_batch_size = 2});
  ghost.init(f.state);
  CHECK(f.loss() != Approx(baseline));
  const auto after = model.named_parameters();
  CHECK(after.keys() == before.keys());
  CHECK(model.named_buffers().keys() == buffers);
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));
  CHECK(f.logged("ghost_batchnorm/num_new_layers") == 21);
  REQUIRE(ghost.report().size() == 21);
  CHECK(ghost.report()[0] == "bn1: BatchNorm2d(16) -> GhostBatchNorm2d(16, 2 samples)");
}

TEST_CASE("ghost batchnorm needs a batch normalisation", "[ghost_batchnorm]") {
  TinyModel model;
  CHECK_THROWS_AS(apply_ghost_batchnorm(model, 32), UserError);
}

}  // namespace composer::ghost_batchnorm_test
