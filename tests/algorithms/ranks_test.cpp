// Methods on one of several ranks: what they do to its share follows from the share and its place.
#include "tests/ranks.h"

#include <catch2/catch.hpp>

#include "algorithms/augmix.h"
#include "algorithms/autoaugment.h"
#include "algorithms/colout.h"
#include "algorithms/cutmix.h"
#include "algorithms/cutout.h"
#include "algorithms/ema.h"
#include "algorithms/lookahead.h"
#include "algorithms/mixup.h"
#include "algorithms/randaugment.h"
#include "algorithms/random_erasing.h"
#include "algorithms/selective_backprop.h"
#include "algorithms/trivialaugment.h"
#include "algorithms/whitening.h"
#include "base/error.h"
#include "nn/state_dict.h"
#include "tests/algorithms/resnet20.h"
#include "tests/algorithms/shared_batch.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::ranks_test {

using test::first_share;
using test::Fixture;
using test::in_ranks;
using test::samples;
using test::two_models;
using test::Whole;

namespace {

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
  CHECK(at::allclose(weights[0].narrow(0, 0, 8), expected.narrow(0, 0, 8), 1e-3, 1e-3));
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
    algorithm->eval_start(f.state);
    algorithm->eval_end(f.state);
    averages[rank] = algorithm->state_dict();
    own[rank] = f.state.model->named_buffers()["bn1.running_mean"].clone();
  });
  REQUIRE(averages[0].tensors.size() == averages[1].tensors.size());
  REQUIRE(averages[0].tensors.size() > 65);
  for (const auto& [name, tensor] : averages[0].tensors) {
    INFO(name);
    CHECK(at::equal(tensor, averages[1].tensors.at(name)));
  }
  CHECK(at::equal(own[0], own[1]) == slow);  // what ema does not need it does not send
}

}  // namespace composer::ranks_test
