#include "algorithms/random_erasing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/algorithms/tiny_model.h"
#include "tests/gpu.h"

namespace composer::random_erasing_test {

using test::Fixture;

namespace {

/// What the algorithm makes of 64 images of ones at `batch`.
at::Tensor on_batch(const RandomErasing::Params& params, int64_t batch = 0) {
  Fixture f;
  f.state.batch.input = at::ones({64, 3, 20, 30});
  f.state.time.batch = batch;
  RandomErasing erasing(params);
  if (erasing.listens(Event::after_dataloader)) erasing.after_dataloader(f.state);
  return f.state.batch.input;
}

using OnBatch = void (*)(const at::Tensor&, const std::vector<Erasure>&, Eraser);
using Bytes = std::vector<uint8_t>;

Bytes on_image(const RandomErasing::Params& params, const SampleKey& place, int64_t channels = 3) {
  Fixture f;
  f.state.normalization = channels == 1 ? Normalization{{33.3}, {78.6}}
                                        : Normalization{{125.3, 122.9, 113.8}, {63, 62.1, 66.7}};
  Bytes bytes(static_cast<size_t>(20 * 30 * channels), 255);
  const auto transform = RandomErasing(params).sample_transform(f.state);
  transform({bytes.data(), 20, 30, channels}, place);
  return bytes;
}

}  // namespace

TEST_CASE("erase fills the boxes on any device, in any memory format", "[random_erasing][gpu]") {
  const std::vector<Erasure> erasures{{2, {1, 2, 2, 3}, 11}, {0, {0, 0, 1, 1}, 12}};
  const auto eraser = GENERATE(Eraser::zero, Eraser::channel, Eraser::pixel);
  auto expected = at::ones({3, 2, 4, 6});
  for (const auto& [sample, box, key] : erasures)
    for (int64_t y = 0; y < box.height; ++y)
      for (int64_t x = 0; x < box.width; ++x)
        for (int64_t c = 0; c < 2; ++c) {
          const int64_t counter = eraser == Eraser::pixel ? (y * box.width + x) * 2 + c : c;
          const float value =
              eraser == Eraser::zero ? 0 : erasure_noise(key, static_cast<uint64_t>(counter));
          expected[sample][c][box.top + y][box.left + x].fill_(value);
        }
  for (const auto device : test::devices())
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const auto images = at::ones({3, 2, 4, 6}, device).contiguous(format);
      for (const auto function : {OnBatch{erase}, OnBatch{erase_batched}}) {
        if (function == OnBatch{erase} && !device.is_cpu()) continue;
        images.fill_(1);
        function(images, erasures, eraser);
        CHECK(images.is_contiguous(format));
        CHECK(at::allclose(images.cpu(), expected, 1e-5, 1e-5));
      }
    }
}

TEST_CASE("the noise is standard normal and has values by hand", "[random_erasing]") {
  // SplitMix64's first output for the seed 0 is 0xE220A8397B1DCDAF.
  const double radius = std::sqrt(-2 * std::log((0xE220A839 + 1.0) / 4294967296.0));
  CHECK(erasure_noise(0, 0) == Approx(radius * std::cos(2 * M_PI * 0x7B1DCDAF / 4294967296.0)));
  double sum = 0, squares = 0, products = 0, last = 0;
  constexpr int n = 100000;
  for (uint64_t i = 0; i < n; ++i) {
    const double value = erasure_noise(7, i);
    sum += value, squares += value * value, products += value * last, last = value;
  }
  CHECK(sum / n == Approx(0).margin(0.015));
  CHECK(squares / n == Approx(1).margin(0.02));
  CHECK(products / n == Approx(0).margin(0.015));
}

TEST_CASE("rectangles keep to area and aspect", "[random_erasing]") {
  const ImageSize size{100, 160};
  const int64_t count = GENERATE(1, 3);
  const ErasureLaw law{.min_area = 0.1, .max_area = 0.2, .min_aspect = 0.5, .max_count = count};
  std::vector<size_t> counts(4);
  for (uint64_t i = 0; i < 300; ++i) {
    Random random(3, "test", 0, i);
    const auto erasures = draw_erasures(law, size, 5, random);
    ++counts[erasures.size()];
    for (const auto& [sample, box, key] : erasures) {
      CHECK(sample == 5);
      CHECK((box.top >= 0 && box.top + box.height <= 100 && box.left >= 0 &&
             box.left + box.width <= 160));
      const double area = static_cast<double>(box.height * box.width) / 16000 *
                          static_cast<double>(erasures.size());
      CHECK((area > 0.09 && area < 0.22));
      const double aspect = static_cast<double>(box.height) / static_cast<double>(box.width);
      CHECK((aspect > 0.45 && aspect < 2.2));
    }
  }
  CHECK(counts[0] == 0);
  for (size_t i = 1; i <= static_cast<size_t>(count); ++i) CHECK(counts[i] > 0);
  Random random(3, "test", 0, 0);
  CHECK(draw_erasures({.min_area = 1, .max_area = 1}, size, 0, random).empty());
}

TEST_CASE("random_erasing changes the given share of a batch, by the batch alone",
          "[random_erasing]") {
  const auto erased = [](const at::Tensor& images) {
    return images.ne(1).flatten(1).any(1).sum().item<int64_t>();
  };
  CHECK(at::equal(on_batch({.probability = 0}), at::ones({64, 3, 20, 30})));
  CHECK(erased(on_batch({.probability = 1})) == 64);
  int64_t changed = 0;
  for (int64_t batch = 0; batch < 20; ++batch) changed += erased(on_batch({}, batch));
  CHECK(static_cast<double>(changed) / (20 * 64) == Approx(0.25).margin(0.04));
  for (const auto* mode : {"const", "channel", "pixel"}) {
    const RandomErasing::Params params{.law = {.max_count = 3}, .probability = 1, .mode = mode};
    CHECK(at::equal(on_batch(params, 7), on_batch(params, 7)));
    CHECK_FALSE(at::equal(on_batch(params, 7), on_batch(params, 8)));
  }
  CHECK(at::equal(on_batch({.probability = 1, .where = "loader"}), at::ones({64, 3, 20, 30})));
}

TEST_CASE("random_erasing changes the loss", "[random_erasing]") {
  Fixture f;
  const double plain = f.loss();
  RandomErasing({.probability = 1}).after_dataloader(f.state);
  CHECK(f.loss() != Approx(plain));
}

TEST_CASE("random_erasing in the loader paints the set's mean, by the sample alone",
          "[random_erasing]") {
  const RandomErasing::Params params{.probability = 1, .where = "loader"};
  const auto bytes = on_image(params, {5, 1, 7});
  CHECK(bytes == on_image(params, {5, 1, 7}));
  CHECK(bytes != on_image(params, {5, 1, 8}));
  CHECK(bytes != on_image(params, {5, 2, 7}));
  int64_t painted = 0;
  for (size_t i = 0; i < bytes.size(); i += 3)
    if (bytes[i] != 255) {
      ++painted;
      CHECK((bytes[i] == 125 && bytes[i + 1] == 123 && bytes[i + 2] == 114));
    }
  CHECK((painted > 5 && painted < 250));
  const auto gray = on_image(params, {5, 1, 7}, 1);
  CHECK(std::ranges::count(gray, 33) == painted);
  for (const auto* mode : {"channel", "pixel"})
    for (const int64_t channels : {1, 3}) {
      const RandomErasing::Params noisy{.probability = 1, .mode = mode, .where = "loader"};
      CHECK(on_image(noisy, {5, 1, 7}, channels) == on_image(noisy, {5, 1, 7}, channels));
      CHECK(on_image(noisy, {5, 1, 7}, channels) != on_image(params, {5, 1, 7}, channels));
    }
  Fixture f;
  CHECK_FALSE(RandomErasing(RandomErasing::Params{}).sample_transform(f.state));
}

TEST_CASE("random_erasing refuses the set's own transform", "[random_erasing]") {
  const auto needs = RandomErasing::compatibility().needs;
  REQUIRE(needs.size() == 1);
  CHECK(needs[0].key == "train_dataset.*.transforms.random_erasing");
  CHECK(RandomErasing::Params{.law = {.min_area = 0.5, .max_area = 0.1}}.check() != "");
}

}  // namespace composer::random_erasing_test
