#include "inference/quantization/histogram.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/quantization/codes.h"
#include "tests/vectors.h"

namespace composer::histogram_test {
namespace {

using nlohmann::json;

/// The same in observer_reference.py.
at::Tensor numbers(int64_t seed, int64_t count, double scale, double shift) {
  auto values = at::empty({count}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) {
    const double u = static_cast<double>((i * 7919 + seed * 104729) % 10007) / 5003.5 - 1;
    values.data_ptr<float>()[i] = static_cast<float>(u * u * u * scale + shift);
  }
  return values;
}

void check_observers(const json& expected) {
  for (const auto& [name, of] : expected.at("histograms").items()) {
    CAPTURE(name);
    Histogram histogram;
    for (const auto& batch : of.at("batches"))
      histogram.add(numbers(batch[0], batch[1], batch[2], batch[3]));
    for (const int64_t bits : {7, 8}) {
      CAPTURE(bits);
      const auto codes = histogram.codes(bits);
      const auto& theirs = of.at(std::to_string(bits));
      CHECK(codes.scale == theirs.at("scale").get<double>());
      CHECK(codes.zero_point == theirs.at("zero_point").get<int64_t>());
    }
  }
  auto weight = numbers(20, 4 * 3 * 3 * 3, 1, 0.1).view({4, 3, 3, 3});
  weight[1] *= 20;
  weight[2].zero_();
  const auto scales = scales_of(weight);
  const auto codes = codes_of(weight, scales);
  const auto& theirs = expected.at("weight");
  for (int64_t i = 0; i < 4; ++i)
    CHECK(scales[i].item<double>() == theirs.at("scales")[static_cast<size_t>(i)].get<double>());
  CHECK(std::vector<int64_t>(codes.data_ptr<int8_t>(), codes.data_ptr<int8_t>() + codes.numel()) ==
        theirs.at("codes").get<std::vector<int64_t>>());
}

}  // namespace

TEST_CASE("observers choose the codes that PyTorch's choose", "[inference][quantization][parity]") {
  check_observers(json::parse(test::recorded("observers.json")));
}

TEST_CASE("observers choose the codes that the PyTorch that is installed chooses",
          "[inference][quantization][parity][peer][recorded]") {
  if (!test::has_python()) {
    WARN("skipped: no " << test::python());
    return;
  }
  const auto answer = test::output_of("tests/inference/observer_reference.py");
  check_observers(json::parse(answer));
  test::record("observers.json", answer);
}

TEST_CASE("infinite numbers are left out of a histogram, others that are none are refused",
          "[inference][quantization]") {
  Histogram with, without;
  const auto values = numbers(1, 1000, 1, 0);
  without.add(values);
  with.add(at::full({3}, INFINITY));
  CHECK(with.empty());
  with.add(at::cat({values, at::full({3}, -INFINITY)}));
  CHECK(with.codes(8).scale == without.codes(8).scale);
  CHECK_THROWS_AS(with.add(at::full({1}, NAN)), RunError);
}

TEST_CASE("codes have one for zero and stay within their bits", "[inference][quantization]") {
  for (const auto& [low, high] : {std::pair{-1.F, 2.F}, {1.F, 2.F}, {-3.F, -1.F}, {0.F, 0.F}}) {
    for (const int64_t bits : {7, 8}) {
      const auto codes = codes_over(low, high, bits);
      const auto values = at::cat({at::linspace(low - 1, high + 1, 1000), at::full({1}, low)});
      const auto rounded = rounded_to_codes(values, codes, bits);
      CHECK(rounded_to_codes(at::zeros({1}), codes, bits).item<float>() == 0);
      const auto all = (rounded / codes.scale).round() + static_cast<double>(codes.zero_point);
      CHECK(all.min().item<double>() >= 0);
      CHECK(all.max().item<double>() <= (1 << bits) - 1);
      const auto inside = values.ge(low).logical_and(values.le(high));
      CHECK((rounded - values).masked_select(inside).abs().max().item<double>() <=
            codes.scale * 0.5001);
    }
  }
}

}  // namespace composer::histogram_test
