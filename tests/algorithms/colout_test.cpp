#include "algorithms/colout.h"

#include <catch2/catch.hpp>

#include "tests/algorithms/tiny_model.h"

namespace composer::colout_test {

using test::Fixture;

TEST_CASE("colout keeps some rows and columns in order", "[colout]") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::arange(2 * 3 * 20 * 10, at::kFloat).view({2, 3, 20, 10});
    const auto small = colout(images.contiguous(format), 0.15, 0.8, Random(1, "test", 0, 0));
    REQUIRE(small.sizes() == at::IntArrayRef{2, 3, 17, 2});
    CHECK(small.is_contiguous(format));
    const auto first = small[0][0];
    const auto rows = first.select(1, 0).div(10, "floor").to(at::kLong);
    const auto columns = first.select(0, 0).remainder(10).to(at::kLong);
    CHECK(rows.diff().min().item<int64_t>() > 0);
    CHECK(columns.diff().min().item<int64_t>() > 0);
    CHECK(at::equal(small, images.index_select(2, rows).index_select(3, columns)));
  }
}

TEST_CASE("colout leaves something and can leave all", "[colout]") {
  const auto images = at::randn({1, 3, 6, 5});
  CHECK(at::equal(colout(images, 0, 0, Random(1, "test", 0, 0)), images));
  CHECK(colout(images, 1, 1, Random(1, "test", 0, 0)).sizes() == at::IntArrayRef{1, 3, 1, 1});
}

TEST_CASE("colout drops every row equally often", "[colout]") {
  auto counts = at::zeros({8});
  const auto images = at::arange(8, at::kFloat).view({1, 1, 8, 1});
  for (uint64_t batch = 0; batch < 2000; ++batch)
    counts.index_add_(0,
                      colout(images, 0.25, 0, Random(1, "test", 0, batch)).flatten().to(at::kLong),
                      at::ones({6}));
  CHECK(counts.min().item<float>() > 1400);
  CHECK(counts.max().item<float>() < 1600);
}

TEST_CASE("colout changes the step, by the batch alone", "[colout]") {
  const auto at_batch = [](int64_t batch) {
    Fixture f;
    f.state.time.batch = batch;
    const double plain = f.loss();
    ColOut({}).after_dataloader(f.state);
    CHECK(f.state.batch.input.sizes() == at::IntArrayRef{4, 3, 27, 27});
    CHECK(f.loss() != Approx(plain));
    return f.state.batch.input;
  };
  CHECK(at::equal(at_batch(7), at_batch(7)));
  CHECK_FALSE(at::equal(at_batch(7), at_batch(8)));
}

}  // namespace composer::colout_test
