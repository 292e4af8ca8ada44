#include "algorithms/augmentation/byte_ops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/each_target.h"

namespace composer::byte_ops_test {

namespace {

std::vector<uint8_t> noise(int64_t n) {
  std::vector<uint8_t> values(static_cast<size_t>(n));
  Random random(5, "noise", 0, 0);
  for (auto& value : values) value = static_cast<uint8_t>(random.below(256));
  return values;
}

/// change(first, n) gives plain code's bytes with any vector instructions, also of as many values
/// as leave some over.
template <class Change>
void check_targets(Change change) {
  for (const int64_t n : {3, 24, 27, 93, 96, 99, 117, 192, 210, 387, 3003}) {
    auto plain = noise(n);
    const auto before = plain;
    {
      const test::OnlyTarget only(test::targets().back());
      change(plain.data(), n);
    }
    for (const int64_t target : test::targets()) {
      const test::OnlyTarget only(target);
      auto values = before;
      change(values.data(), n);
      INFO(hwy::TargetName(target) << ", " << n << " values");
      CHECK(values == plain);
    }
  }
}

}  // namespace

TEST_CASE("bytes change in vector instructions as they do in plain ones", "[byte_ops]") {
  const float factor = GENERATE(0.0f, 0.37f, 1.0f, 1.9f, 3e9f);
  const bytes::Blend by{factor, 1 - factor};
  const auto others = noise(3003);
  const std::vector<float> levels(others.rbegin(), others.rend());
  check_targets([&](uint8_t* values, int64_t n) {
    bytes::stretch({{7, 0, 100}, {factor, 2.5f, factor / 3}, 20.4f}, values, n);
  });
  check_targets([&](uint8_t* values, int64_t n) { bytes::blend(by, others.data(), values, n); });
  check_targets([&](uint8_t* values, int64_t n) { bytes::blend(by, levels.data(), values, n); });
  check_targets([&](uint8_t* values, int64_t n) { bytes::blend_greys(by, values, n / 3); });
  check_targets([&](uint8_t* values, int64_t n) {
    const int64_t sum = bytes::sum_of_greys(values, n / 3);
    values[0] = static_cast<uint8_t>(sum), values[1] = static_cast<uint8_t>(sum >> 8);
  });
  int64_t sum = 0;
  for (int64_t i = 0; i < 1001; ++i) sum += bytes::sum_of_greys(others.data() + 3 * i, 1);
  CHECK(bytes::sum_of_greys(others.data(), 1001) == sum);
}

TEST_CASE("bytes by hand", "[byte_ops]") {
  std::vector<uint8_t> values = {0, 10, 100, 200, 255};
  bytes::stretch({{0, 10, 50}, {2, 1, 0.5f}, 1}, values.data(), 5);
  CHECK(values == std::vector<uint8_t>{1, 1, 26, 255, 246});
  bytes::invert(26, values.data(), 5);
  CHECK(values == std::vector<uint8_t>{1, 1, 229, 0, 9});
  bytes::keep_bits(0xF0, values.data(), 5);
  CHECK(values == std::vector<uint8_t>{0, 0, 224, 0, 0});
  const auto range = bytes::range_of(values.data(), 5);
  CHECK(range.least == std::array<uint8_t, 3>{0, 0, 224});
  CHECK(range.greatest == std::array<uint8_t, 3>{0, 0, 224});
  const auto counts = bytes::counts_of(values.data(), 5);
  CHECK(counts[0][0] == 2);
  CHECK(counts[2][224] == 1);
}

TEST_CASE("means of bytes are rounded to the nearest", "[byte_ops]") {
  const int64_t n = 1500, channels = GENERATE(1, 3);
  const auto above = noise(n + 6), row = std::vector<uint8_t>(above.rbegin(), above.rend());
  const std::vector<uint8_t> below(above.size(), 201);
  std::vector<uint8_t> means(n);
  bytes::smooth(above.data() + 3, row.data() + 3, below.data() + 3, channels, n, means.data());
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 4.0 * row[static_cast<size_t>(i + 3)];
    for (const int64_t at : {i + 3 - channels, i + 3, i + 3 + channels})
      for (const auto* values : {&above, &row, &below}) sum += (*values)[static_cast<size_t>(at)];
    wrong += means[static_cast<size_t>(i)] != std::lround(sum / 13);
  }
  CHECK(wrong == 0);
}

TEST_CASE("the range of bytes is that of all of them", "[byte_ops]") {
  std::vector<uint8_t> values(1000, 100);
  const size_t at = GENERATE(0, 1, 95, 96, 500, 958, 959, 960, 999);
  values[at] = 3;
  CHECK(bytes::range_of(values.data(), 1000).least[at % 3] == 3);
  values[at] = 250;
  CHECK(bytes::range_of(values.data(), 1000).greatest[at % 3] == 250);
}

}  // namespace composer::byte_ops_test
