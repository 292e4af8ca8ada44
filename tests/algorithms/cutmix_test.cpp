#include "algorithms/cutmix.h"

#include <catch2/catch.hpp>

#include "algorithms/mixup.h"
#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::cutmix_test {

using test::Fixture;

TEST_CASE("cutmix pastes the partner's box", "[cutmix]") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::arange(2 * 2 * 3 * 3, at::kFloat).view({2, 2, 3, 3}).contiguous(format);
    const auto mixed = cutmix(images, at::tensor({1, 0}, at::kLong), {0, 1, 1, 2});
    CHECK(mixed.is_contiguous(format));
    CHECK(at::equal(mixed[0][0].flatten(),
                    at::tensor({0.f, 19.f, 20.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f})));
    CHECK(at::equal(mixed[1][1].flatten(),
                    at::tensor({27.f, 10.f, 11.f, 30.f, 31.f, 32.f, 33.f, 34.f, 35.f})));
  }
}

TEST_CASE("cutmix's box has the area that lambda leaves", "[cutmix]") {
  Random random(1, "test", 0, 0);
  int64_t largest = 0;
  for (int i = 0; i < 200; ++i) {
    const auto box = cutmix_box({32, 64}, 0.75, false, random);
    largest = std::max(largest, box.height * box.width);
  }
  CHECK(largest == 16 * 32);
  const auto nothing = cutmix_box({32, 64}, 1, true, random);
  CHECK(nothing.height * nothing.width == 0);
}

TEST_CASE("cutmix weighs the partner's label by the area pasted", "[cutmix]") {
  const bool uniform_sampling = GENERATE(false, true);
  Fixture f;
  // Image i is all i, its class i.
  const auto images =
      at::arange(4, at::kFloat).view({4, 1, 1, 1}).expand({4, 3, 32, 32}).contiguous();
  CutMix cutmix({.uniform_sampling = uniform_sampling});
  for (f.state.time.batch = 0; f.state.time.batch < 20; ++f.state.time.batch) {
    f.state.batch = {images, {at::arange(4), {}, {}}};
    cutmix.after_dataloader(f.state);
    const auto& [mixed, target] = f.state.batch;
    const auto expected = target.classes.to(at::kFloat)
                              .lerp(target.other_classes.to(at::kFloat), target.other_weight);
    CHECK(at::allclose(mixed.mean({1, 2, 3}), expected, 1e-4, 1e-4));
  }
}

TEST_CASE("cutmix changes the step, by the batch alone", "[cutmix]") {
  const auto at_batch = [](int64_t batch) {
    Fixture f;
    f.state.time.batch = batch;
    const double plain = f.loss();
    CutMix({}).after_dataloader(f.state);
    CHECK(f.loss() != Approx(plain));
    return f.state.batch;
  };
  const auto first = at_batch(7), again = at_batch(7), later = at_batch(8);
  CHECK(at::equal(first.input, again.input));
  CHECK(at::equal(first.target.other_weight, again.target.other_weight));
  CHECK_FALSE(at::equal(first.input, later.input));
}

TEST_CASE("a box of fixed length lies anywhere within the image", "[cutmix]") {
  Random random(1, "test", 0, 0);
  int64_t top = 0, left = 0;
  for (int i = 0; i < 500; ++i) {
    const auto box = fixed_box({32, 20}, 0.1, random);
    REQUIRE((box.height == 3 && box.width == 2));
    REQUIRE((box.top >= 0 && box.top <= 29 && box.left >= 0 && box.left <= 18));
    top = std::max(top, box.top), left = std::max(left, box.left);
  }
  CHECK((top == 29 && left == 18));
  const auto least = fixed_box({8, 8}, 0.01, random), most = fixed_box({8, 8}, 1, random);
  CHECK((least.height == 1 && least.width == 1));
  CHECK((most.top == 0 && most.height == 8));
}

TEST_CASE("cutmix of a fixed length starts when it should", "[cutmix]") {
  Fixture f(10);
  CutMix cutmix({.length = 0.1, .start = {0.5, TimeUnit::duration}});
  f.state.time.batch = 4;
  cutmix.after_dataloader(f.state);
  CHECK_FALSE(f.state.batch.target.other_classes.defined());
  f.state.time.batch = 5;
  const auto before = f.state.batch.input;
  cutmix.after_dataloader(f.state);
  CHECK(at::allclose(f.state.batch.target.other_weight, at::full({4}, 9.f / 1024)));
  CHECK((f.state.batch.input != before).any(1).sum().item<int64_t>() <= 4 * 9);

  CHECK(CutMix::Params{}.check().empty());
  CHECK_FALSE(CutMix::Params{.uniform_sampling = true, .length = 0.1}.check().empty());
  CHECK_FALSE(CutMix::Params{.start = {5, TimeUnit::second}}.check().empty());
}

TEST_CASE("mixup and cutmix exclude each other", "[cutmix][mixup]") {
  Fixture f;
  Mixup({}).after_dataloader(f.state);
  CHECK_THROWS_AS(CutMix({}).after_dataloader(f.state), UserError);
  Fixture g;
  CutMix({}).after_dataloader(g.state);
  CHECK_THROWS_AS(Mixup({}).after_dataloader(g.state), UserError);
}

}  // namespace composer::cutmix_test
