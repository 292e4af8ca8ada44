
#include <ATen/ATen.h>
#include <ATen/Version.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "nn/optimization/update_pass.h"
#include "tests/composer/wave.h"
#include "tests/each_target.h"

namespace composer::update_simd_test {

namespace {

/// The arrays of one weight.
struct Arrays {
  at::Tensor weight, gradient, state[3], rounded, average;

  explicit Arrays(int64_t size, double phase = 0)
      : weight(wave({size}, phase, 0.1)),
        gradient(wave({size}, phase + 1, 0.37)),
        state{wave({size}, phase + 2, 0.2), wave({size}, phase + 3, 0.3).abs(),
              wave({size}, phase + 4, 0.4).abs()},
        rounded(at::zeros({size}, at::kBFloat16)),
        average(wave({size}, phase + 5, 0.5)) {}

  UpdateSpan span(float share) {
    return {.size = weight.numel(),
            .weight = weight.mutable_data_ptr<float>(),
            .gradient = gradient.const_data_ptr<float>(),
            .state = {state[0].mutable_data_ptr<float>(), state[1].mutable_data_ptr<float>(),
                      state[2].mutable_data_ptr<float>()},
            .rounded = reinterpret_cast<uint16_t*>(rounded.mutable_data_ptr<at::BFloat16>()),
            .average = average.mutable_data_ptr<float>(),
            .average_share = share};
  }
  /// All that every processor gets the same bits of.
  std::vector<at::Tensor> exact() const { return {weight, state[0], state[1], state[2], rounded}; }
};

const std::vector<SgdRule> sgd_rules{
    {.lr = 0.1f},
    {.lr = 0.1f, .decay = 0.02f, .momentum = 0.9f},
    {.lr = 0.1f, .decay = 0.02f, .momentum = 0.9f, .nesterov = true},
    {.lr = 0.2f, .shrink = 0.98f, .momentum = 0.9f, .gradient_share = 0.5f},
};

const std::vector<AdamRule> adam_rules{
    {.shrink = 0.99f,
     .mean_share = 0.1f,
     .beta2 = 0.999f,
     .square_share = 0.001f,
     .step_size = 0.01f,
     .root = 0.3f,
     .eps = 1e-8f},
    {.mean_share = 0.7f,
     .beta2 = 0.9f,
     .square_share = 0.1f,
     .step_size = 0.02f,
     .root = 0.6f,
     .eps = 1e-3f,
     .amsgrad = true},
};

/// One number, in double precision.
struct Expected {
  double weight, state[3];

  Expected(const SgdRule& rule, double w, double g, double m, double v, double largest)
      : state{m, v, largest} {
    const double d = g + rule.decay * w;
    if (rule.momentum != 0) state[0] = m = rule.momentum * m + rule.gradient_share * d;
    const double way = rule.momentum == 0 ? d : rule.nesterov ? d + rule.momentum * m : m;
    weight = rule.shrink * w - rule.lr * way;
  }
  Expected(const AdamRule& rule, double w, double g, double m, double v, double largest)
      : state{m, v, largest} {
    state[0] = m + rule.mean_share * (g - m);
    state[1] = rule.beta2 * v + rule.square_share * g * g;
    if (rule.amsgrad) state[2] = std::max(largest, state[1]);
    const double square = rule.amsgrad ? state[2] : state[1];
    weight =
        rule.shrink * w - rule.step_size * state[0] / (std::sqrt(square) / rule.root + rule.eps);
  }
};

template <class Rule>
void check_rule(const Rule& rule, int64_t size, float share) {
  CAPTURE(size, share);
  std::vector<at::Tensor> plain;
  for (const int64_t target : test::targets()) {
    CAPTURE(hwy::TargetName(target));
    const test::OnlyTarget only(target);
    Arrays arrays(size), before(size);
    update(rule, arrays.span(share));
    for (int64_t i = 0; i < size; ++i) {
      const auto at = [i](const at::Tensor& values) { return values[i].item<double>(); };
      const Expected expected(rule, at(before.weight), at(before.gradient), at(before.state[0]),
                              at(before.state[1]), at(before.state[2]));
      REQUIRE(at(arrays.weight) == Approx(expected.weight).epsilon(1e-5).margin(1e-6));
      for (int k = 0; k < 3; ++k)
        REQUIRE(at(arrays.state[k]) == Approx(expected.state[k]).epsilon(1e-5).margin(1e-6));
    }
    CHECK(arrays.rounded.equal(arrays.weight.to(at::kBFloat16)));
    CHECK(at::allclose(arrays.average, before.average.lerp(arrays.weight, share), 1e-6, 1e-7));
    if (plain.empty()) plain = arrays.exact();
    for (size_t k = 0; k < plain.size(); ++k) CHECK(plain[k].equal(arrays.exact()[k]));
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

TEST_CASE("updates follow their formulas on every target, to the same bits", "[update_simd]") {
  for (const int64_t size : {0, 1, 15, 16, 37, 100}) {
    for (const auto& rule : sgd_rules) check_rule(rule, size, 0.01f);
    for (const auto& rule : adam_rules) check_rule(rule, size, 0.8f);
  }
}

TEST_CASE("without room for rounded weights and averages none are written", "[update_simd]") {
  for (const int64_t target : test::targets()) {
    const test::OnlyTarget only(target);
    Arrays all(37), few(37);
    update(sgd_rules[2], all.span(0.1f));
    auto span = few.span(0.1f);
    span.rounded = nullptr, span.average = nullptr;
    update(sgd_rules[2], span);
    CHECK(few.weight.equal(all.weight));
    CHECK(few.rounded.count_nonzero().item<int64_t>() == 0);
    CHECK(few.average.equal(Arrays(37).average));
  }
}

TEST_CASE("weights are rounded as LibTorch rounds them", "[update_simd]") {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; high += 7)
    for (const uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const uint32_t bits = high << 16 | low;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    }
  const auto weights = at::tensor(values);
  const auto expected = weights.to(at::kBFloat16);
  for (const int64_t target : test::targets()) {
    CAPTURE(hwy::TargetName(target));
    const test::OnlyTarget only(target);
    Arrays arrays(weights.numel());
    arrays.weight = weights.clone();
    arrays.gradient.zero_();
    update(SgdRule{}, arrays.span(0));
    const auto number = weights.isnan().logical_not() & weights.isfinite();
    CHECK(arrays.rounded.masked_select(number).equal(expected.masked_select(number)));
    CHECK(arrays.rounded.isnan().equal(arrays.weight.isnan()));
  }
}

TEST_CASE("averages move as at::lerp moves them", "[update_simd]") {
  Arrays arrays(1000), before(1000);
  const float share = GENERATE(0.01f, 0.3f, 0.5f, 0.93f);
  update(sgd_rules[1], arrays.span(share));
  const auto expected = before.average.lerp(arrays.weight, share);
  // LibTorch fuses multiplication and addition where its own vectors can.
  if (at::get_cpu_capability() == "AVX512" || at::get_cpu_capability() == "AVX2")
    CHECK(arrays.average.equal(expected));
  else
    CHECK(at::allclose(arrays.average, expected, 1e-6, 1e-7));
}

TEST_CASE("a pass makes the updates that single calls make", "[update_simd]") {
  UpdatePass pass;
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{3, 100000, 0, 1, 32768, 70001}, {5}, {}, {40000, 2}}) {
    std::vector<Arrays> together, single;
    for (const int64_t size : sizes) together.emplace_back(size), single.emplace_back(size);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i % 2 == 0)
        pass.add(adam_rules[0], together[i].span(0.1f)),
            update(adam_rules[0], single[i].span(0.1f));
      else
        pass.add(sgd_rules[1], together[i].span(0.1f)), update(sgd_rules[1], single[i].span(0.1f));
    }
    pass.run();
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t k = 0; k < 5; ++k) CHECK(same_bits(together[i].exact()[k], single[i].exact()[k]));
      CHECK(same_bits(together[i].average, single[i].average));
    }
  }
}

}  // namespace composer::update_simd_test
