// Methods that act on gradients, updates and layers leave ranks in step.
#include <catch2/catch.hpp>
#include <mutex>

#include "algorithms/gradient_clipping.h"
#include "algorithms/layer_freezing.h"
#include "algorithms/progressive_batch_size.h"
#include "algorithms/sam.h"
#include "algorithms/stochastic_depth.h"
#include "base/error.h"
#include "composer/loop/engine.h"
#include "composer/run/train_step.h"
#include "nn/optimization/optimizers.h"
#include "tests/algorithms/resnet20.h"
#include "tests/algorithms/shared_batch.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/ranks.h"

namespace composer::ranks_training_test {

using test::first_share;
using test::Fixture;
using test::in_ranks;
using test::resnet20;
using test::samples;
using test::two_models;
using test::Whole;

namespace {

std::mutex checking;

at::Tensor weights_of(const Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.detach().flatten());
  return at::cat(all);
}

/// One rank's part in a few steps on batches of `samples`, with `algorithm`, if any.
struct Training {
  Training(const Ranks& ranks, const std::shared_ptr<Model>& model, int64_t grad_accum = 1) {
    state.ranks = ranks;
    state.model = model;
    state.grad_accum = grad_accum;
    SgdParams sgd;
    sgd.lr = 0.05, sgd.momentum = 0.9;
    state.optimizer = std::make_shared<Sgd>(sgd);
    state.optimizer->attach(*model);
  }

  void step(const Whole& whole) {
    const bool alone = state.ranks.alone(), first = state.ranks.first();
    const int64_t begin = first ? 0 : first_share, end = alone || !first ? samples : first_share;
    state.first_sample = begin;
    state.batch = whole.part(begin, end);
    engine.run(Event::batch_start, state);
    updates.push_back(state.updates);
    if (!stepper) stepper.emplace(state, engine, 0, sync);
    state.recompute_gradients = [this] { stepper->recompute_gradients(); };
    stepper->run();
    if (state.first_sample != begin) throw RunError("the share has lost its place");
    state.updates = 1;
    state.time.next_batch(samples);
  }

  Fixture fixture;
  State& state = fixture.state;
  Engine engine;
  GradientSyncOptions sync;
  std::optional<TrainStep> stepper;
  std::vector<int64_t> updates;
};

struct GradientNorms : Algorithm {
  void after_train_batch(State& state) override {
    std::vector<at::Tensor> norms;
    for (const auto& gradient : state.optimizer->gradients()) norms.push_back(gradient.norm());
    seen.push_back(at::stack(norms));
  }
  std::vector<at::Tensor> seen;
};

struct OwnLoss : Algorithm {
  void after_backward(State& state) override { seen = state.loss.detach().clone(); }
  at::Tensor seen;
};

}  // namespace

TEST_CASE("the loss of all ranks is not written into that of one", "[ranks]") {
  const Whole whole;
  auto models = two_models();
  in_ranks(2, [&](const Ranks& ranks) {
    Training training(ranks, models[static_cast<size_t>(ranks.rank())]);
    const auto own = std::make_shared<OwnLoss>();
    training.engine.add({"own", own, subscriptions<OwnLoss>()});
    training.step(whole);
    const std::lock_guard lock(checking);
    CHECK(at::equal(training.state.loss, own->seen));
  });
}

TEST_CASE("gradients, clipped and of sam's second pass, are those of the whole batch", "[ranks]") {
  const std::string method = GENERATE("clip_norm", "clip_adaptive", "sam");
  const Whole whole;
  const auto run = [&](const Ranks& ranks, const std::shared_ptr<Model>& model) {
    Training training(ranks, model, /*grad_accum=*/2);
    const auto norms = std::make_shared<GradientNorms>();
    if (method == "sam")
      training.engine.add({"sam", std::make_shared<Sam>(Sam::Params{}), subscriptions<Sam>()});
    else
      training.engine.add({"gradient_clipping",
                           std::make_shared<GradientClipping>(GradientClipping::Params{
                               .clipping_type = method.substr(5), .clipping_threshold = 0.05}),
                           subscriptions<GradientClipping>()});
    training.engine.add({"norms", norms, subscriptions<GradientNorms>()});
    for (int step = 0; step < 3; ++step) training.step(whole);
    return std::make_pair(at::stack(norms->seen), weights_of(*model));
  };
  const auto make = [] {
    at::manual_seed(6);
    return std::make_shared<test::TinyModel>();
  };
  const auto alone = run({}, make());
  std::vector<std::shared_ptr<Model>> models{make(), make()};
  std::vector<std::pair<at::Tensor, at::Tensor>> both(2);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    both[rank] = run(ranks, models[rank]);
  });
  CHECK(at::equal(both[0].first, both[1].first));
  CHECK(at::equal(both[0].second, both[1].second));
  CHECK(at::allclose(both[0].first, alone.first, 1e-3, 1e-5));
  CHECK(at::allclose(both[0].second, alone.second, 1e-3, 1e-5));
}

TEST_CASE("frozen layers and dropped branches leave ranks in step", "[ranks]") {
  const bool freezing = GENERATE(false, true);
  const Whole whole;
  auto models = two_models();
  in_ranks(2, [&](const Ranks& ranks) {
    const auto& model = models[static_cast<size_t>(ranks.rank())];
    Training training(ranks, model);
    StochasticDepth depth({.drop_rate = 0.9, .drop_distribution = "uniform"});
    if (!freezing) {
      depth.init(training.state);
      training.sync.find_unused = depth.leaves_out_parameters();
    }
    for (int64_t step = 0; step < 4; ++step) {
      if (freezing) freeze_layers(*model, 4 * step);
      training.step(whole);
    }
  });
  CHECK(at::equal(weights_of(*models[0]), weights_of(*models[1])));
  CHECK(StochasticDepth({}).leaves_out_parameters());
  CHECK_FALSE(StochasticDepth({.stochastic_method = "sample"}).leaves_out_parameters());
}

TEST_CASE("ranks make as many updates and microbatches, however their shares divide", "[ranks]") {
  const Whole whole;
  auto models = two_models();
  std::vector<std::vector<int64_t>> updates(2);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    Training training(ranks, models[rank], /*grad_accum=*/6);  // the second share has 5 samples
    training.state.run_length.batch_size = samples;
    training.engine.add({"progressive_batch_size",
                         std::make_shared<ProgressiveBatchSize>(
                             ProgressiveBatchSize::Params{.initial_scale = 0.05}),
                         subscriptions<ProgressiveBatchSize>()});
    for (int step = 0; step < 2; ++step) training.step(whole);
    updates[rank] = training.updates;
  });
  CHECK(at::equal(weights_of(*models[0]), weights_of(*models[1])));
  CHECK(updates[0] == std::vector<int64_t>{5, 5});  // eleven updates of one sample, but for that
  CHECK(updates[1] == updates[0]);
}

TEST_CASE("a gradient that overflows on one rank skips the step on all", "[ranks][slow]") {
  const Whole whole;
  auto models = two_models();
  const auto before = weights_of(*models[0]).clone();
  std::vector<double> scales(2);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    struct Overflow : Algorithm {
      void before_backward(State& state) override {
        if (!state.ranks.first() && state.time.batch == 0) state.loss = state.loss * 1e36;
      }
    };
    Training training(ranks, models[rank]);
    training.state.precision = Precision::amp_fp16;
    training.engine.add({"overflow", std::make_shared<Overflow>(), subscriptions<Overflow>()});
    training.step(whole);
    const auto skipped = weights_of(*models[rank]).clone();
    training.step(whole);
    const auto scale = training.stepper->scaler().scale(at::ones({})).item<double>();
    const std::lock_guard lock(checking);
    CHECK(at::equal(skipped, before));
    scales[rank] = scale;
  });
  CHECK(scales[0] == scales[1]);
  CHECK(scales[0] == 32768);
  CHECK(at::equal(weights_of(*models[0]), weights_of(*models[1])));
}

}  // namespace composer::ranks_training_test
