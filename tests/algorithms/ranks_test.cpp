// Methods on one of several ranks: what they do to its share follows from the share and its place.
#include "tests/ranks.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "algorithms/augmix.h"
#include "algorithms/autoaugment.h"
#include "algorithms/colout.h"
#include "algorithms/cutmix.h"
#include "algorithms/cutout.h"
#include "algorithms/dropout.h"
#include "algorithms/ema.h"
#include "algorithms/gradient_clipping.h"
#include "algorithms/layer_freezing.h"
#include "algorithms/lookahead.h"
#include "algorithms/mixup.h"
#include "algorithms/progressive_batch_size.h"
#include "algorithms/randaugment.h"
#include "algorithms/random_erasing.h"
#include "algorithms/sam.h"
#include "algorithms/selective_backprop.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/trivialaugment.h"
#include "algorithms/whitening.h"
#include "composer/engine.h"
#include "composer/error.h"
#include "composer/optimization/optimizers.h"
#include "composer/train_step.h"
#include "models/resnet_cifar.h"
#include "tests/algorithms/tiny_model.h"

using namespace composer;
using test::Fixture;
using test::in_ranks;

namespace {

std::mutex checking;

constexpr int64_t samples = 11, first_share = 6;

/// A batch of all ranks, of which the second of two has what comes after first_share.
struct Whole {
  Whole() {
    at::manual_seed(4);
    images = at::randn({samples, 3, 32, 32});
    bytes = at::randint(256, {samples, 32, 32, 3}, at::kByte);
    classes = at::arange(samples) % 5;
  }
  Batch part(int64_t begin, int64_t end) const {
    Target target;
    target.classes = classes.slice(0, begin, end);
    return {images.slice(0, begin, end).clone(), target};
  }
  at::Tensor images, bytes, classes;
};

/// What `algorithm` makes of samples [begin, end), alone or as one of the ranks that have them all.
Batch changed(Algorithm& algorithm, const Whole& whole, int64_t begin, int64_t end,
              const Ranks& ranks, const std::shared_ptr<Model>& model) {
  Fixture f;
  auto& state = f.state;
  state.ranks = ranks;
  if (model) state.model = model;
  state.first_sample = begin;
  state.time.batch = 60;
  state.time.batch_in_epoch = 60;
  state.raw_batch = {whole.bytes.slice(0, begin, end).clone(), {}};
  state.batch = whole.part(begin, end);
  if (algorithm.listens(Event::augment)) algorithm.augment(state);
  if (algorithm.listens(Event::after_dataloader)) algorithm.after_dataloader(state);
  if (state.first_sample != begin) throw RunError("the share has lost its place");
  state.batch.input =
      at::cat({state.batch.input.flatten(), state.raw_batch.images.to(at::kFloat).flatten()});
  return state.batch;
}

/// On two ranks each share is what it is on one that is given the share and its place.
/// Returns the shares.
std::vector<Batch> shares(const std::function<std::shared_ptr<Algorithm>()>& make,
                          const std::function<std::shared_ptr<Model>()>& model = {}) {
  const Whole whole;
  std::vector<std::shared_ptr<Model>> models(2);
  if (model) models = {model(), model()};
  std::vector<Batch> results(2);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    const auto algorithm = make();
    const int64_t begin = ranks.first() ? 0 : first_share;
    const int64_t end = ranks.first() ? first_share : samples;
    results[rank] = changed(*algorithm, whole, begin, end, ranks, models[rank]);
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    const int64_t begin = rank == 0 ? 0 : first_share, end = rank == 0 ? first_share : samples;
    const auto alone = changed(*make(), whole, begin, end, {}, models[rank]);
    CHECK(at::equal(results[rank].input, alone.input));
    CHECK(at::equal(results[rank].target.classes, alone.target.classes));
    CHECK(results[rank].target.other_classes.defined() == alone.target.other_classes.defined());
    if (!alone.target.other_classes.defined()) continue;
    CHECK(at::equal(results[rank].target.other_classes, alone.target.other_classes));
    CHECK(at::equal(results[rank].target.other_weight, alone.target.other_weight));
  }
  return results;
}

/// Methods that change each image by itself: shares together are what one rank makes of all.
void check_each(const std::function<std::shared_ptr<Algorithm>()>& make) {
  const auto parts = shares(make);
  const Whole whole;
  const auto all = changed(*make(), whole, 0, samples, {}, {}).input;
  const auto plain = at::cat({whole.images.flatten(), whole.bytes.to(at::kFloat).flatten()});
  CHECK_FALSE((all.numel() == plain.numel() && at::equal(all, plain)));
  const int64_t each = all.numel() / samples;
  CHECK(parts[0].input.numel() == first_share * each);
  CHECK(parts[0].input.numel() + parts[1].input.numel() == all.numel());
  // Normalised images, then bytes, of one kind after the other.
  const int64_t bytes = whole.bytes[0].numel(), normal = each - bytes;
  const auto images = all.narrow(0, 0, samples * normal),
             raw = all.narrow(0, samples * normal, samples * bytes);
  const auto part = [&](int64_t begin, int64_t n) {
    return at::cat(
        {images.narrow(0, begin * normal, n * normal), raw.narrow(0, begin * bytes, n * bytes)});
  };
  CHECK(at::equal(parts[0].input, part(0, first_share)));
  CHECK(at::equal(parts[1].input, part(first_share, samples - first_share)));
}

template <class T>
auto maker(const typename T::Params& params = {}) {
  return [params]() -> std::shared_ptr<Algorithm> { return std::make_shared<T>(params); };
}

std::shared_ptr<Model> resnet20() {
  at::manual_seed(5);
  return std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {"kaiming_normal"}});
}

std::vector<std::shared_ptr<Model>> two_models() { return {resnet20(), resnet20()}; }

at::Tensor weights_of(const Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.detach().flatten());
  return at::cat(all);
}

}  // namespace

TEST_CASE("what changes single images does not see which rank has them", "[ranks]") {
  check_each(maker<RandAugment>());
  check_each(maker<TrivialAugment>());
  check_each(maker<AutoAugment>({.policy = "cifar10"}));
  check_each(maker<AugMix>());
  for (const auto* mode : {"const", "pixel"})
    check_each(maker<RandomErasing>({.law = {.max_count = 2}, .probability = 0.7, .mode = mode}));
}

TEST_CASE("what is drawn once a batch is the same on all ranks", "[ranks]") {
  check_each(maker<Cutout>());
  check_each(maker<ColOut>());
}

TEST_CASE("mixup and cutmix pair within a share, with the batch's weights", "[ranks]") {
  const auto check = [](const std::vector<Batch>& parts, bool one_weight) {
    const auto& a = parts[0].target.other_weight;
    const auto& b = parts[1].target.other_weight;
    CHECK(a.size(0) == first_share);
    CHECK(b.size(0) == samples - first_share);
    CHECK(at::cat({a, b}).eq(a[0]).all().item<bool>() == one_weight);
  };
  check(shares(maker<Mixup>()), true);
  check(shares(maker<Mixup>({.per_sample = true})), false);
  check(shares(maker<CutMix>()), true);
  check(shares(maker<CutMix>({.length = 0.4})), true);

  const auto weights = [](const Mixup::Params& params) {
    const auto parts = shares(maker<Mixup>(params));
    return at::cat({parts[0].target.other_weight, parts[1].target.other_weight});
  };
  const Whole whole;
  for (const bool per_sample : {false, true}) {
    Mixup alone({.per_sample = per_sample});
    CHECK(at::equal(weights({.per_sample = per_sample}),
                    changed(alone, whole, 0, samples, {}, {}).target.other_weight));
  }
}

TEST_CASE("selective_backprop chooses within a share", "[ranks]") {
  const auto parts = shares(maker<SelectiveBackprop>({.start = 0, .end = 1, .interrupt = 0}), [] {
    at::manual_seed(6);
    return std::make_shared<test::TinyModel>();
  });
  CHECK(parts[0].target.classes.size(0) == 3);
  CHECK(parts[1].target.classes.size(0) == 2);
}

TEST_CASE("whitening is that of all ranks' images, and the same on each", "[ranks]") {
  const int64_t most = GENERATE(4, 8, 5000);  // 4: the second rank's images do not take part
  const Whole whole;
  const std::array<int64_t, 2> kernel{3, 3}, stride{2, 2};
  const auto expected =
      whitening_filters(whole.images.slice(0, 0, std::min(most, samples)), kernel, stride, 5e-4);
  std::vector<at::Tensor> weights(2);
  std::vector<std::shared_ptr<Model>> models{std::make_shared<test::TinyModel>(),
                                             std::make_shared<test::TinyModel>()};
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    Fixture f;
    f.state.ranks = ranks;
    f.state.model = models[rank];
    f.state.first_sample = ranks.first() ? 0 : first_share;
    f.state.batch.input =
        whole.images.slice(0, f.state.first_sample, ranks.first() ? first_share : samples);
    Whitening whitening({.samples = most});
    whitening.init(f.state);
    ranks.broadcast(f.state.model->parameters());  // the ranks drew different ones
    whitening.after_dataloader(f.state);
    weights[rank] = f.state.model->named_parameters()["conv1.weight"].detach();
  });
  CHECK(at::equal(weights[0], weights[1]));
  const auto first = weights[0].narrow(0, 0, 8).flatten(1),
             wanted = expected.narrow(0, 0, 8).flatten(1);
  // The sign of an eigenvector is open.
  const auto sign = (first * wanted).sum(1, /*keepdim=*/true).sign();
  CHECK(at::allclose(first * sign, wanted, 1e-3, 1e-3));
}

TEST_CASE("averages take the first rank's running statistics", "[ranks]") {
  const bool slow = GENERATE(false, true);
  auto models = two_models();
  std::vector<StateDict> averages(2);
  std::vector<at::Tensor> own(2);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    Fixture f(10);
    f.state.ranks = ranks;
    f.state.model = models[rank];
    std::shared_ptr<Algorithm> algorithm;
    if (slow)
      algorithm = std::make_shared<Lookahead>(
          Lookahead::Params{.interval = {1, TimeUnit::batch}, .schedule = "cubic"});
    else
      algorithm = std::make_shared<Ema>(Ema::Params{.half_life = {2, TimeUnit::batch}});
    for (int batch = 0; batch < 3; ++batch) {
      algorithm->batch_start(f.state);
      const at::NoGradGuard no_grad;
      for (auto& buffer : f.state.model->buffers()) buffer.add_(ranks.rank() + 1);
      f.state.time.next_batch(4);
      algorithm->batch_end(f.state);
    }
    averages[rank] = algorithm->state_dict();
    own[rank] = f.state.model->named_buffers()["bn1.running_mean"].clone();
  });
  REQUIRE(averages[0].tensors.size() == averages[1].tensors.size());
  REQUIRE(averages[0].tensors.size() > 65);
  for (const auto& [name, tensor] : averages[0].tensors) {
    INFO(name);
    CHECK(at::equal(tensor, averages[1].tensors.at(name)));
  }
  CHECK(at::equal(own[0], own[1]));
}

namespace {

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

}  // namespace

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
    training.state.schedule.batch_size = samples;
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

TEST_CASE("a gradient that overflows on one rank skips the step on all", "[ranks]") {
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
