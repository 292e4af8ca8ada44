#include "algorithms/cutout.h"

#include <catch2/catch.hpp>

#include "tests/algorithms/tiny_model.h"

namespace composer::cutout_test {

using test::Fixture;

TEST_CASE("cutout blanks the boxes", "[cutout]") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::ones({2, 2, 3, 3}).contiguous(format);
    const auto cut = cutout(images, {{0, 0, 1, 2}, {2, 2, 1, 1}});
    CHECK(cut.is_contiguous(format));
    CHECK(
        at::equal(cut[1][0].flatten(), at::tensor({0.f, 0.f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f, 0.f})));
    CHECK(at::equal(cut[0], cut[1]));
    CHECK(images.min().item<float>() == 1);
  }
}

TEST_CASE("cutout cuts squares of the shorter side's share, at most num_holes", "[cutout]") {
  Fixture f;
  const int64_t num_holes = GENERATE(1, 3);
  Cutout cutout({.num_holes = num_holes, .length = 0.25});
  int64_t most = 0;
  for (f.state.time.batch = 0; f.state.time.batch < 50; ++f.state.time.batch) {
    f.state.batch.input = at::ones({2, 3, 16, 32});
    cutout.after_dataloader(f.state);
    most = std::max(most, f.state.batch.input[0][0].eq(0).sum().item<int64_t>());
  }
  CHECK(most == 16 * num_holes);
}

TEST_CASE("cutout changes the step, by the batch alone", "[cutout]") {
  const auto at_batch = [](int64_t batch, bool uniform_sampling) {
    Fixture f;
    f.state.time.batch = batch;
    const double plain = f.loss();
    Cutout({.uniform_sampling = uniform_sampling}).after_dataloader(f.state);
    CHECK(f.loss() != Approx(plain));
    return f.state.batch.input;
  };
  CHECK(at::equal(at_batch(7, false), at_batch(7, false)));
  CHECK(at::equal(at_batch(7, true), at_batch(7, true)));
  CHECK_FALSE(at::equal(at_batch(7, false), at_batch(8, false)));
}

}  // namespace composer::cutout_test
