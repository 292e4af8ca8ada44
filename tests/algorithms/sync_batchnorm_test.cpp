#include "algorithms/sync_batchnorm.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "base/error.h"
#include "base/random.h"
#include "composer/loop/engine.h"
#include "composer/run/train_step.h"
#include "nn/network/gradient_sync.h"
#include "nn/network/graph.h"
#include "nn/optimization/optimizers.h"
#include "tests/algorithms/resnet20.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/replayed.h"
#include "tests/ranks.h"

namespace composer::sync_batchnorm_test {

using test::Fixture;
using test::in_ranks;
using test::resnet20;
using test::TinyModel;

namespace {

std::mutex checking;

/// A rank's part of the batch: as even as can be, or with the first rank's twice the others'.
at::Tensor share_of(const at::Tensor& batch, const Ranks& ranks, bool uneven = false) {
  const int64_t parts = ranks.size() + (uneven ? 1 : 0);
  const auto pieces = batch.tensor_split(parts);
  if (!uneven) return pieces[static_cast<size_t>(ranks.rank())];
  return ranks.first() ? at::cat({pieces[0], pieces[1]})
                       : pieces[static_cast<size_t>(ranks.rank() + 1)];
}

/// What a layer leaves behind of one pass through it and back.
struct Pass {
  at::Tensor output, of_input, of_weight, of_bias, running_mean, running_var;
};

/// The gradient of the output is `gradient`.
Pass pass(BatchNorm2d& norm, const at::Tensor& input, const at::Tensor& gradient) {
  const auto leaf = input.detach().requires_grad_();
  const auto output = norm.NormLayer::forward(leaf);
  output.backward(gradient);
  return {output.detach(),  leaf.grad(),       norm.weight.grad(),
          norm.bias.grad(), norm.running_mean, norm.running_var};
}

BatchNorm2d norm_of(int64_t channels, at::ScalarType type) {
  BatchNorm2d norm(channels);
  norm.weight.detach().copy_(at::linspace(0.5, 1.5, channels));
  norm.bias.detach().copy_(at::linspace(-1, 1, channels));
  norm.Layer::to(type);
  return norm;
}

bool close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return a.scalar_type() == b.scalar_type() && at::allclose(a, b, tolerance, tolerance);
}

}  // namespace

TEST_CASE("shares of any size are normalised as one batch, forward and back", "[sync_batchnorm]") {
  const int64_t size = GENERATE(2, 4);
  const bool uneven = GENERATE(false, true);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const auto own = type == at::kDouble ? at::kDouble : at::kFloat;
  const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-4 : 4e-2;
  at::manual_seed(3);
  const auto draw = [&] {
    return at::randn({13, 6, 5, 4}, at::kDouble).to(type).contiguous(format);
  };
  const auto input = draw() * 3 + 2, gradient = draw();
  auto plain = norm_of(6, own);
  const auto whole = pass(plain, input, gradient);
  CAPTURE(size, uneven, type);

  in_ranks(size, [&](const Ranks& ranks) {
    const auto part = [&](const at::Tensor& t) {
      return share_of(t, ranks, uneven).contiguous(format);
    };
    SyncBatchNorm2d synced(norm_of(6, own), ranks);
    const auto mine = pass(synced, part(input), part(gradient));
    ranks.sum({mine.of_weight, mine.of_bias});
    const std::lock_guard lock(checking);
    CHECK(close(mine.output, part(whole.output), tolerance));
    CHECK(mine.output.is_contiguous(format));
    CHECK(close(mine.of_input, part(whole.of_input), tolerance));
    CHECK(close(mine.of_weight, whole.of_weight, 20 * tolerance));
    CHECK(close(mine.of_bias, whole.of_bias, 20 * tolerance));
    CHECK(close(mine.running_mean, whole.running_mean, tolerance));
    CHECK(close(mine.running_var, whole.running_var, tolerance));
    CHECK(synced.num_batches_tracked.item<int64_t>() == 1);
  });
}

TEST_CASE("ranks get the same statistics, bit for bit, and evaluate by them", "[sync_batchnorm]") {
  at::manual_seed(3);
  const auto input = at::randn({7, 6, 5, 4}) + 100;
  std::vector<at::Tensor> buffers(3);
  in_ranks(3, [&](const Ranks& ranks) {
    SyncBatchNorm2d synced(BatchNorm2d(6), ranks);
    synced.NormLayer::forward(share_of(input, ranks));
    buffers[static_cast<size_t>(ranks.rank())] = at::cat({synced.running_mean, synced.running_var});
    synced.eval();
    if (ranks.first()) {  // alone: evaluation waits for nobody
      const auto output = synced.NormLayer::forward(input);
      const std::lock_guard lock(checking);
      CHECK(at::allclose(
          output.mean({0, 2, 3}),
          (input.mean({0, 2, 3}) - synced.running_mean) / (synced.running_var + 1e-5).sqrt(), 1e-3,
          1e-3));
    }
  });
  CHECK(at::equal(buffers[0], buffers[1]));
  CHECK(at::equal(buffers[0], buffers[2]));
}

TEST_CASE("one value a channel on each rank is enough, on one rank alone it is not",
          "[sync_batchnorm]") {
  in_ranks(2, [](const Ranks& ranks) {
    SyncBatchNorm2d synced(BatchNorm2d(4), ranks);
    const auto output = synced.NormLayer::forward(at::randn({1, 4, 1, 1}));
    const std::lock_guard lock(checking);
    CHECK(output.isfinite().all().item<bool>());
  });
  SyncBatchNorm2d alone(BatchNorm2d(4), {});
  CHECK_THROWS_AS(alone.NormLayer::forward(at::randn({1, 4, 1, 1})), RunError);
}

TEST_CASE("with one rank sync_batchnorm is plain batch norm, under the same names",
          "[sync_batchnorm]") {
  Fixture f;
  f.state.model = resnet20();
  const auto plain = resnet20();
  const auto parameters = plain->named_parameters().keys(), buffers = plain->named_buffers().keys();
  SyncBatchNorm algorithm;
  algorithm.init(f.state);
  CHECK(f.state.model->named_parameters().keys() == parameters);
  CHECK(f.state.model->named_buffers().keys() == buffers);
  CHECK(
      at::equal(f.state.model->forward(f.state.batch.input), plain->forward(f.state.batch.input)));
  CHECK(f.logged("sync_batchnorm/num_new_layers") == 21);
  REQUIRE(algorithm.report().size() == 21);
  CHECK(algorithm.report()[0] == "bn1: BatchNorm2d(16) -> SyncBatchNorm2d(16)");
  CHECK(apply_sync_batchnorm(*resnet20(), {}).size() == 21);

  const auto input = at::randn({2, 3, 8, 8});
  const auto graph = record(*f.state.model, input);
  CHECK(test::kinds(graph)["batch_norm"] == 21);
}

TEST_CASE("sync batchnorm needs a batch normalisation", "[sync_batchnorm]") {
  TinyModel model;
  CHECK_THROWS_AS(apply_sync_batchnorm(model, {}), UserError);
}

namespace {

/// Weights and running statistics after `steps` steps of SGD, in float64, on batches that are
/// shared out among the ranks.
at::Tensor trained(const std::shared_ptr<Model>& model, const Ranks& ranks, bool uneven,
                   int64_t steps) {
  Fixture f;
  auto& state = f.state;
  state.model = model;
  state.ranks = ranks;
  model->torch::nn::Module::to(at::kDouble);
  SyncBatchNorm algorithm;
  algorithm.init(state);
  state.optimizer = std::make_shared<Sgd>([] {
    SgdParams sgd;
    sgd.lr = 0.05, sgd.momentum = 0.9, sgd.weight_decay = 5e-4;
    return sgd;
  }());
  state.optimizer->attach(*model);
  Engine engine;
  TrainStep step(state, engine, /*grad_clip_norm=*/1);
  for (int64_t i = 0; i < steps; ++i) {
    auto images = at::empty({10, 3, 8, 8}, at::kDouble);
    Random random(1, "images", 0, static_cast<uint64_t>(i));
    std::generate_n(images.data_ptr<double>(), images.numel(), [&] { return random.normal(); });
    state.batch = {share_of(images, ranks, uneven),
                   {.classes = share_of(at::arange(10), ranks, uneven),
                    .other_classes = {},
                    .other_weight = {}}};
    step.run();
    state.time.next_batch(10);
  }
  std::vector<at::Tensor> all;
  for (const auto& tensor : model->parameters()) all.push_back(tensor.detach().flatten());
  for (const auto& tensor : model->buffers()) all.push_back(tensor.to(at::kDouble).flatten());
  return at::cat(all);
}

}  // namespace

TEST_CASE("with sync_batchnorm ranks train as one does on the whole batch",
          "[sync_batchnorm][slow]") {
  constexpr int64_t steps = 50;
  const auto alone = trained(resnet20(), {}, false, steps);
  REQUIRE(alone.isfinite().all().item<bool>());
  for (const auto& [size, uneven] :
       std::vector<std::pair<int64_t, bool>>{{2, false}, {2, true}, {4, false}}) {
    CAPTURE(size, uneven);
    std::vector<std::shared_ptr<Model>> models;
    std::vector<at::Tensor> weights(static_cast<size_t>(size));
    for (int64_t rank = 0; rank < size; ++rank) models.push_back(resnet20());
    in_ranks(size, [&](const Ranks& ranks) {
      const auto rank = static_cast<size_t>(ranks.rank());
      weights[rank] = trained(models[rank], ranks, uneven, steps);
    });
    for (const auto& weight : weights) CHECK(at::equal(weight, weights[0]));
    const double distance = ((weights[0] - alone).norm() / alone.norm()).item<double>();
    CAPTURE(distance);
    CHECK(distance < 1e-9);
    CHECK(at::allclose(weights[0], alone, 1e-7, 1e-9));
  }
}

}  // namespace composer::sync_batchnorm_test
