#include "base/loading/pixel_normalizer.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "nn/network/normalize.h"
#include "tests/each_target.h"

namespace composer::pixel_normalizer_test {

TEST_CASE("pixels are normalised to the same bits by every instruction set", "[normalize]") {
  for (const int64_t channels : {1, 3}) {
    Normalization normalization{{123.675, 116.28, 103.53}, {58.395, 57.12, 57.375}};
    normalization.mean.resize(static_cast<size_t>(channels));
    normalization.std.resize(static_cast<size_t>(channels));
    const auto mean = at::tensor(normalization.mean, at::kDouble),
               std = at::tensor(normalization.std, at::kDouble);
    const auto scale = std.reciprocal().to(at::kFloat), shift = mean.div(std).neg().to(at::kFloat);
    for (const int64_t side : {1, 5, 16, 40}) {
      const auto images = at::randint(256, {1, side, side + 1, channels}, at::kByte);
      // Two operators: the product is rounded before the sum.
      const auto expected = images.to(at::kFloat).mul(scale).add(shift);
      const PixelNormalizer normalizer(normalization.mean, normalization.std);
      for (const int64_t target : test::targets()) {
        const test::OnlyTarget only(target);
        for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous})
          CHECK(
              at::equal(normalize(images, normalization, format).permute({0, 2, 3, 1}), expected));
        auto floats = at::empty(images.sizes(), at::kFloat);
        normalizer.run(images.const_data_ptr<uint8_t>(), images.numel(),
                       floats.mutable_data_ptr<float>());
        CHECK(at::equal(floats, expected));
        auto halves = at::empty(images.sizes(), at::kBFloat16);
        normalizer.run_bf16(images.const_data_ptr<uint8_t>(), images.numel(),
                            static_cast<uint16_t*>(halves.mutable_data_ptr()));
        CHECK(at::equal(halves, expected.to(at::kBFloat16)));
      }
    }
  }
}

}  // namespace composer::pixel_normalizer_test
