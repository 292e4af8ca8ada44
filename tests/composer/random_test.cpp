#include "composer/random.h"

#include <catch2/catch.hpp>

using composer::Random;

// Known-answer vectors of the Random123 distribution.
TEST_CASE("philox4x32-10 gives the published vectors", "[random]") {
  CHECK(Random::philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(
      Random::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
      std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      Random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams differ by seed, purpose, epoch and index, and repeat", "[random]") {
  const auto first = [](uint64_t seed, const char* purpose, uint64_t epoch, uint64_t index) {
    return Random(seed, purpose, epoch, index).uniform();
  };
  const double base = first(17, "a", 3, 5);
  CHECK(base == first(17, "a", 3, 5));
  CHECK(base != first(18, "a", 3, 5));
  CHECK(base != first(17 + (1ull << 32), "a", 3, 5));
  CHECK(base != first(17, "b", 3, 5));
  CHECK(base != first(17, "a", 4, 5));
  CHECK(base != first(17, "a", 3, 6));
}

TEST_CASE("below is uniform and stays in range", "[random]") {
  Random random(1, "below", 0, 0);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) CHECK(count == Approx(10000).margin(400));
}
