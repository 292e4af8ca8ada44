#include "algorithms/parts/whole_batch.h"

#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"

namespace composer::whole_batch_test {

TEST_CASE("boxes stay in the image and cover it as promised", "[whole_batch]") {
  const bool uniform_sampling = GENERATE(false, true);
  const ImageSize image{8, 6}, size{5, 4};
  Random random(1, "test", 0, 0);
  auto hits = at::zeros({1, 1, 8, 6});
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    const auto box = random_box(image, size, uniform_sampling, random);
    REQUIRE(box.height <= 4);
    REQUIRE(box.width <= 4);
    part_of(hits, box).add_(1);
  }
  // Half of 5 is 2: a span of 4, which a pixel in the middle is in for 4 of the centres.
  const double middle = uniform_sampling ? 16.0 / (11 * 9) : 16.0 / (8 * 6);
  CHECK(hits[0][0][4][3].item<double>() / draws == Approx(middle).epsilon(0.06));
  // The corner is in it for centres 0 to 2, or 1 - 2 to 2.
  const double corner = uniform_sampling ? 16.0 / (11 * 9) : 9.0 / (8 * 6);
  CHECK(hits[0][0][0][0].item<double>() / draws == Approx(corner).epsilon(0.06));
  CHECK(random_box(image, {1, 1}, uniform_sampling, random).height == 0);
}

TEST_CASE("partners are a permutation, each equally likely", "[whole_batch]") {
  Random random(1, "test", 0, 0);
  std::map<int64_t, int> counts;
  for (int i = 0; i < 6000; ++i) {
    const auto partners = random_partners(3, random, at::kCPU);
    REQUIRE(at::equal(std::get<0>(partners.sort()), at::arange(3)));
    ++counts[(partners * at::tensor({100, 10, 1})).sum().item<int64_t>()];
  }
  REQUIRE(counts.size() == 6);
  for (const auto& [permutation, count] : counts) CHECK(count == Approx(1000).margin(120));
}

TEST_CASE("picking keeps the memory format", "[whole_batch]") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::randn({3, 2, 4, 5}).contiguous(format);
    const auto index = at::tensor({2, 0, 1}, at::kLong);
    for (const int64_t dim : {0, 2, 3}) {
      const auto picked = pick(images, dim, index);
      CHECK(at::equal(picked, images.index_select(dim, index)));
      CHECK(picked.is_contiguous(format));
    }
  }
}

TEST_CASE("a second label has room, a third has not", "[whole_batch]") {
  const Target target{.classes = at::tensor({4, 5}, at::kLong),
                      .other_classes = {},
                      .other_weight = {},
                      .smoothing = 0.1};
  const auto partners = at::tensor({1, 0}, at::kLong);
  const auto mixed = mix_labels(target, partners, at::tensor({0.25f, 0.5f}), "mixup");
  CHECK(at::equal(mixed.classes, target.classes));
  CHECK(at::equal(mixed.other_classes, at::tensor({5, 4}, at::kLong)));
  CHECK(at::equal(mixed.other_weight, at::tensor({0.25f, 0.5f})));
  CHECK(mixed.smoothing == 0.1);
  CHECK_THROWS_AS(mix_labels(mixed, partners, mixed.other_weight, "cutmix"), UserError);
  CHECK_THROWS_WITH(mix_labels(mixed, partners, mixed.other_weight, "cutmix"),
                    Catch::Contains("algorithms.cutmix"));
}

}  // namespace composer::whole_batch_test
