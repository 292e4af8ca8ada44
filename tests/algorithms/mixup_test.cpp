#include "algorithms/mixup.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::mixup_test {

using test::Fixture;

TEST_CASE("mixup blends with the partner", "[mixup]") {
  const auto images = at::tensor({0.f, 10.f, 20.f}).view({3, 1, 1, 1});
  const auto mixed = mixup(images, at::tensor({1, 2, 0}, at::kLong), at::tensor({.5f, .2f, .1f}));
  CHECK(at::allclose(mixed.flatten(), at::tensor({5.f, 12.f, 18.f})));
  CHECK(at::equal(images.flatten(), at::tensor({0.f, 10.f, 20.f})));
}

TEST_CASE("mixup keeps the memory format", "[mixup]") {
  const auto format = at::MemoryFormat::ChannelsLast;
  const auto images = at::randn({2, 3, 4, 5});
  const auto partners = at::tensor({1, 0}, at::kLong), weight = at::tensor({.3f, .4f});
  const auto mixed = mixup(images.contiguous(format), partners, weight);
  CHECK(mixed.is_contiguous(format));
  CHECK(at::allclose(mixed, mixup(images, partners, weight)));
}

TEST_CASE("mixup's weights are at most a half, one a batch or one a sample", "[mixup]") {
  Random random(1, "test", 0, 0);
  const auto one = mixup_weight(64, 1, false, random), each = mixup_weight(64, 1, true, random);
  CHECK(one.eq(one[0]).all().item<bool>());
  CHECK(std::get<0>(at::_unique(each)).numel() > 60);
  CHECK(each.max().item<float>() <= 0.5f);
  CHECK(each.min().item<float>() >= 0);
  CHECK(each.mean().item<float>() == Approx(0.25).margin(0.06));
}

TEST_CASE("mixup mixes the targets as it does the images", "[mixup]") {
  const bool per_sample = GENERATE(false, true);
  Fixture f;
  const auto images = f.state.batch.input;
  const double plain = f.loss();
  Mixup({.alpha = 1, .per_sample = per_sample}).after_dataloader(f.state);
  const auto& [mixed, target] = f.state.batch;
  CHECK(at::equal(target.classes, at::arange(4)));
  const auto weight = target.other_weight.view({4, 1, 1, 1});
  // The classes of the fixture are the places of the images.
  const auto partners = images.index_select(0, target.other_classes);
  CHECK(at::allclose(mixed, images * (1 - weight) + partners * weight, 1e-5, 1e-6));
  CHECK(f.loss() != Approx(plain));
}

TEST_CASE("mixup draws by the batch alone", "[mixup]") {
  const auto at_batch = [](int64_t batch) {
    Fixture f;
    f.state.time.batch = batch;
    Mixup({}).after_dataloader(f.state);
    return f.state.batch;
  };
  const auto first = at_batch(7), again = at_batch(7), later = at_batch(8);
  CHECK(at::equal(first.input, again.input));
  CHECK(at::equal(first.target.other_classes, again.target.other_classes));
  CHECK_FALSE(at::equal(first.target.other_weight, later.target.other_weight));
}

TEST_CASE("mixup refuses labels that are mixed already", "[mixup]") {
  Fixture f;
  Mixup mixup({});
  mixup.after_dataloader(f.state);
  CHECK_THROWS_AS(mixup.after_dataloader(f.state), UserError);
}

}  // namespace composer::mixup_test
