#include "algorithms/progressive_resizing.h"

#include <catch2/catch.hpp>

#include "algorithms/colout.h"
#include "base/error.h"
#include "composer/loop/engine.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::progressive_resizing_test {

using test::Fixture;
using Params = ProgressiveResizing::Params;

namespace {

int64_t width(int64_t full, double elapsed, const Params& params) {
  return ProgressiveResizing::size({full, full}, ProgressiveResizing::scale(elapsed, params),
                                   params)
      .width;
}

/// sizes: epoch of 90, and the width there.
void check_sizes(int64_t full, const Params& params,
                 const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  const RunLength run_length{.batches_per_epoch = 7, .max_duration = {90, TimeUnit::epoch}};
  for (const auto& [epoch, expected] : sizes) {
    CAPTURE(full, epoch);
    CHECK(width(full, static_cast<double>(epoch) / 90, params) == expected);
    CHECK(width(full, run_length.elapsed({.epoch = epoch, .batch = epoch * 7}), params) ==
          expected);
  }
}

const Random any(1, "test", 0, 0);

}  // namespace

TEST_CASE("sizes follow the published schedule", "[progressive_resizing]") {
  check_sizes(224, {},
              {{0, 112},
               {45, 112},
               {46, 116},
               {50, 132},
               {54, 148},
               {60, 176},
               {63, 188},
               {66, 200},
               {70, 216},
               {71, 220},
               {72, 224},
               {89, 224}});
  check_sizes(224, {.size_increment = 32},
              {{0, 128}, {50, 128}, {54, 160}, {60, 160}, {63, 192}, {66, 192}, {70, 224}});
  check_sizes(
      176, {.delay_fraction = 0.4},
      {{36, 88}, {44, 108}, {45, 112}, {50, 124}, {60, 148}, {66, 160}, {71, 172}, {72, 176}});
  check_sizes(176, {.initial_scale = 0.6, .delay_fraction = 0.2},
              {{0, 104}, {18, 104}, {36, 128}, {45, 140}, {60, 160}, {70, 172}, {71, 176}});
  check_sizes(32, {}, {{0, 16}, {46, 16}, {50, 20}, {60, 24}, {63, 28}, {70, 32}});
}

TEST_CASE("the schedule has no holes at its edges", "[progressive_resizing]") {
  const Params abrupt{.finetune_fraction = 0.5, .delay_fraction = 0.5};
  CHECK(width(224, 0.499, abrupt) == 112);
  CHECK(width(224, 0.5, abrupt) == 224);
  CHECK(width(224, 1.0, Params{.finetune_fraction = 0, .delay_fraction = 1}) == 224);
  CHECK(width(225, 1.0, {}) == 225);
  CHECK(width(32, 0.0, {.initial_scale = 0}) == 4);
  CHECK(width(32, 0.0, {.size_increment = 64}) == 32);
  CHECK(ProgressiveResizing::size({100, 50}, 0.5, {}) == ImageSize{48, 24});
  CHECK(ProgressiveResizing::size({224, 224}, 148.0 / 224, {}) == ImageSize{148, 148});
  CHECK(Params{}.check().empty());
  CHECK(Params{.finetune_fraction = 0.3, .delay_fraction = 0.7}.check().empty());
  CHECK_FALSE(Params{.finetune_fraction = 0.6}.check().empty());
}

TEST_CASE("targets are not resized", "[progressive_resizing]") {
  const auto problems_of = [](const std::string& yaml) {
    Params params;
    Problems problems;
    read_fields(parse_yaml(yaml, "r.yaml", problems).value(), collect(params), "", problems);
    return lines(problems);
  };
  CHECK(problems_of("resize_targets: false").empty());
  CHECK(problems_of("resize_targets: true") ==
        std::vector<std::string>{"r.yaml:1:17: resize_targets: must be false: the target of a "
                                 "classification has no size"});
}

TEST_CASE("resizing weighs pixels by a triangle", "[progressive_resizing]") {
  const auto images = at::arange(8, at::kFloat).square().view({1, 1, 1, 8});
  const auto small = resize_batch(images, {1, 4}, "resize", any).flatten();
  // Output 1 is centred on 3.0: weights 1/8 3/8 3/8 1/8 on pixels 1 to 4. Output 0 loses pixel -1:
  // 3/7 3/7 1/7.
  CHECK(small[1].item<float>() == Approx((1 * 1 + 3 * 4 + 3 * 9 + 1 * 16) / 8.0));
  CHECK(small[0].item<float>() == Approx((3 * 0 + 3 * 1 + 1 * 4) / 7.0));
}

TEST_CASE("resizing keeps the memory format", "[progressive_resizing]") {
  const std::string mode = GENERATE("resize", "crop");
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::randn({2, 3, 20, 24}).contiguous(format);
    const auto small = resize_batch(images, {10, 12}, mode, any, format);
    CHECK(small.sizes() == at::IntArrayRef{2, 3, 10, 12});
    CHECK(small.is_contiguous(format));
    const auto same = resize_batch(images.contiguous(), {10, 12}, mode, any);
    CHECK(at::allclose(small, same, 1e-5, 1e-6));
  }
  CHECK_THROWS_AS(resize_batch(at::zeros({1, 1, 4, 4}), {2, 2}, "nearest", any), UserError);
}

TEST_CASE("cropping takes one window for the batch, drawn for it", "[progressive_resizing]") {
  const auto images = at::arange(2 * 16 * 16, at::kFloat).view({2, 1, 16, 16});
  std::set<float> corners;
  for (uint64_t batch = 0; batch < 50; ++batch) {
    const auto window = resize_batch(images, {8, 8}, "crop", Random(1, "test", 0, batch));
    const auto corner = window[0][0][0][0].item<float>();
    corners.insert(corner);
    const auto top = static_cast<int64_t>(corner) / 16, left = static_cast<int64_t>(corner) % 16;
    REQUIRE(at::equal(window, images.narrow(2, top, 8).narrow(3, left, 8)));
    REQUIRE(at::equal(window, resize_batch(images, {8, 8}, "crop", Random(1, "test", 0, batch))));
  }
  CHECK(corners.size() > 20);
}

TEST_CASE("images grow as training proceeds", "[progressive_resizing]") {
  const std::string mode = GENERATE("resize", "crop");
  Fixture f;
  f.state.memory_format = at::MemoryFormat::ChannelsLast;
  const auto images = f.state.batch.input.contiguous(f.state.memory_format);
  ProgressiveResizing resizing({.mode = mode});
  for (const auto& [batch, side] : std::map<int64_t, int64_t>{{0, 16}, {65, 24}, {90, 32}}) {
    f.state.batch.input = images;
    f.state.time.batch = batch;
    const auto planned = resizing.planned(f.state);
    resizing.after_dataloader(f.state);
    CHECK(f.state.batch.input.sizes() == at::IntArrayRef{4, 3, side, side});
    CHECK(f.state.batch.input.is_contiguous(f.state.memory_format));
    REQUIRE(planned.size() == 3);
    for (const auto& [name, value] : planned) CHECK(f.logged(name) == value);
  }
  CHECK(f.logged("progressive_resizing/width") == 32);
  CHECK(f.logged("progressive_resizing/height") == 32);
  CHECK(f.logged("progressive_resizing/scale_factor") == 1);
}

TEST_CASE("progressive resizing changes the step", "[progressive_resizing]") {
  Fixture f;
  const double baseline = f.loss();
  ProgressiveResizing({}).after_dataloader(f.state);
  CHECK(f.loss() != Approx(baseline));
}

TEST_CASE("what other methods cut away is not put back, however they are listed",
          "[progressive_resizing]") {
  const std::string mode = GENERATE("resize", "crop");
  Fixture f;
  f.state.time.batch = 99;
  Engine engine;
  engine.add(Member<Algorithm>{"colout", std::make_shared<ColOut>(ColOut::Params{}),
                               subscriptions<ColOut>()});
  engine.add(Member<Algorithm>{"progressive_resizing",
                               std::make_shared<ProgressiveResizing>(Params{.mode = mode}),
                               subscriptions<ProgressiveResizing>()});
  engine.run(Event::after_dataloader, f.state);
  CHECK(f.state.batch.input.sizes() == at::IntArrayRef{4, 3, 27, 27});
}

}  // namespace composer::progressive_resizing_test
