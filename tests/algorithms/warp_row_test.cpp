#include <catch2/catch.hpp>

#include "algorithms/augmentation/warp.h"
#include "tests/algorithms/augmentation_checks.h"
#include "tests/each_target.h"

namespace composer::warp_row_test {

namespace {

struct Axes {
  Axes(ImageOp op, double magnitude, ImageSize size) : Axes(affine_of(op, magnitude, size), size) {}
  Axes(const AffineMap& a, ImageSize size)
      : x(a.xx, a.xy, a.x0, size.width, size), y(a.yx, a.yy, a.y0, size.height, size) {}

  bool fusible() const { return x.fusible && y.fusible; }

  WarpAxis x, y;
};

}  // namespace

TEST_CASE("rows are read in vector instructions as in plain ones", "[warp_row]") {
  const auto op = GENERATE(ImageOp::shear_x, ImageOp::shear_y, ImageOp::rotate);
  const int64_t channels = GENERATE(1, 3);
  const auto read = GENERATE(nearest_row, bilinear_row);
  for (const ImageSize size : {ImageSize{1, 1}, {3, 8}, {20, 9}, {7, 10}, {33, 47}}) {
    const auto pixels = test::noise({size.height + 3, size.width + 3, channels});
    const auto frame = at::cat({pixels.view(-1), test::noise({16})});
    const WarpFrame from{frame.data_ptr<uint8_t>(),
                         static_cast<int32_t>((size.width + 3) * channels),
                         static_cast<int32_t>(channels)};
    for (const double magnitude : {-170.0, -1.0, -0.3, 0.01, 0.5, 17.0, 45.0}) {
      Axes axes(op, magnitude, size);
      REQUIRE(axes.fusible());
      for (int64_t row = 0; row < size.height; ++row) {
        const float y = 0.5f - 0.5f * static_cast<float>(size.height) + static_cast<float>(row);
        // One pixel more than the row has: it stays as it is.
        auto fused = at::full({(size.width + 1) * channels}, 77, at::kByte), plain = fused.clone();
        axes.x.fusible = false;
        read(axes.x, axes.y, y, from, size.width, plain.data_ptr<uint8_t>());
        axes.x.fusible = true;
        for (const int64_t target : test::targets()) {
          const test::OnlyTarget only(target);
          fused.fill_(77);
          read(axes.x, axes.y, y, from, size.width, fused.data_ptr<uint8_t>());
          CHECK(at::equal(fused, plain));
          CHECK(at::all(fused.slice(0, size.width * channels) == 77).item<bool>());
        }
      }
    }
  }
}

TEST_CASE("sums of far-apart parts are not fused", "[warp_row]") {
  CHECK(Axes(ImageOp::rotate, 17, {224, 224}).fusible());
  CHECK(Axes(ImageOp::shear_x, 1e-12, {224, 224}).y.fusible);
  CHECK_FALSE(Axes(ImageOp::shear_x, 1e-12, {224, 224}).x.fusible);
  CHECK_FALSE(Axes(ImageOp::rotate, 90, {224, 224}).fusible());
}

}  // namespace composer::warp_row_test
