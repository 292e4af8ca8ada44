#include "algorithms/alternating_flip.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/params/params.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::alternating_flip_test {

TEST_CASE("each image is mirrored in exactly every second epoch", "[alternating_flip]") {
  int first = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    first += alternating_flip({17, 0, sample});
    for (uint64_t epoch = 0; epoch < 6; ++epoch)
      REQUIRE(alternating_flip({17, epoch, sample}) != alternating_flip({17, epoch + 1, sample}));
  }
  CHECK(first > 430);
  CHECK(first < 570);
}

TEST_CASE("the seed decides which epochs an image is mirrored in", "[alternating_flip]") {
  int different = 0;
  for (uint64_t sample = 0; sample < 100; ++sample)
    different += alternating_flip({1, 0, sample}) != alternating_flip({2, 0, sample});
  CHECK(different > 25);
}

TEST_CASE("mirroring exchanges pixels, not their channels", "[alternating_flip]") {
  std::vector<uint8_t> colour{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  mirror({colour.data(), 2, 3, 3});
  CHECK(colour ==
        std::vector<uint8_t>{7, 8, 9, 4, 5, 6, 1, 2, 3, 17, 18, 19, 14, 15, 16, 11, 12, 13});
  std::vector<uint8_t> grey{1, 2, 3, 4, 5, 6, 7, 8};
  mirror({grey.data(), 2, 4, 1});
  CHECK(grey == std::vector<uint8_t>{4, 3, 2, 1, 8, 7, 6, 5});
}

TEST_CASE("the loader's transform mirrors by turn, whatever the set did", "[alternating_flip]") {
  test::Fixture f;
  const auto transform = AlternatingFlip().sample_transform(f.state);
  REQUIRE(transform);
  for (uint64_t epoch = 0; epoch < 4; ++epoch)
    for (const bool mirrored : {false, true}) {
      std::vector<uint8_t> row{1, 2};
      if (mirrored) std::swap(row[0], row[1]);
      const SampleKey place{f.state.seed, epoch, 5, mirrored};
      transform({row.data(), 1, 2, 1}, place);
      CHECK((row[0] == 2) == alternating_flip(place));
    }
}

TEST_CASE("a set that shows images several times an epoch is refused", "[alternating_flip]") {
  const auto problems = [](const char* order) {
    auto dataset = Value::map(), datasets = Value::map(), whole = Value::map();
    dataset.set("order", Value::scalar(order));
    datasets.set("cifar10", dataset);
    whole.set("train_dataset", datasets);
    Problems found;
    check({{"alternating_flip", {}, AlternatingFlip::compatibility()}}, whole, found);
    return found.size();
  };
  CHECK(problems("auto") == 0);
  CHECK(problems("random") == 0);
  CHECK(problems("class_balanced") == 1);
}

}  // namespace composer::alternating_flip_test
