#include <catch2/catch.hpp>
#include <limits>

#include "algorithms/blurpool.h"
#include "tests/gpu.h"

namespace composer::unstrided_pool_test {

TEST_CASE("unstrided_max_pool equals max_pool2d, its gradient too, in parts of any size",
          "[unstrided_pool][gpu]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const Pool2dOptions options = GENERATE(
      Pool2dOptions{{3, 3}, {2, 2}, {1, 1}}, Pool2dOptions{{2, 2}, {2, 2}, {0, 0}},
      Pool2dOptions{{5, 3}, {2, 2}, {2, 1}}, Pool2dOptions{{3, 3}, {2, 2}, {1, 1}, {2, 2}});
  const auto shape = GENERATE(std::vector<int64_t>{5, 4, 9, 14}, std::vector<int64_t>{2, 3, 7, 6});
  const int64_t most_elements = GENERATE(1, 700, 1 << 27);
  for (const auto device : test::devices()) {
    CAPTURE(device, shape, most_elements);
    // Few values, so that there are ties; infinities and nan count.
    auto values = at::randint(-3, 4, shape, at::kFloat);
    values[0][1][2][3] = std::numeric_limits<float>::quiet_NaN();
    values[1][2][5].fill_(-std::numeric_limits<float>::infinity());
    const auto input = values.to(device).contiguous(format).requires_grad_();
    const auto reference = input.detach().clone().requires_grad_();
    const auto output = unstrided_max_pool(input, options, most_elements);
    const auto expected =
        at::max_pool2d(reference, options.kernel, {1, 1}, options.padding, options.dilation);
    REQUIRE(output.sizes() == expected.sizes());
    CHECK(output.is_contiguous(format));
    CHECK(at::allclose(output, expected, 0, 0, /*equal_nan=*/true));

    const auto gradient = at::randn_like(expected);
    output.backward(gradient);
    expected.backward(gradient);
    CHECK(at::allclose(input.grad(), reference.grad(), 1e-6, 1e-6));
    const at::NoGradGuard no_grad;
    CHECK(at::allclose(unstrided_max_pool(input, options, most_elements), expected, 0, 0, true));
  }
}

TEST_CASE("unstrided_max_pool takes planes whose moves need more than two bytes",
          "[unstrided_pool]") {
  const auto input = at::randn({1, 1, 3, 20000}).requires_grad_();
  const Pool2dOptions options{{3, 3}, {1, 1}, {1, 1}};
  CHECK(
      at::equal(unstrided_max_pool(input, options), at::max_pool2d(input, {3, 3}, {1, 1}, {1, 1})));
}

}  // namespace composer::unstrided_pool_test
