#include "nn/profiling/conversions.h"

#include <catch2/catch.hpp>

namespace composer::conversions_test {

TEST_CASE("copies that change type or layout are conversions", "[conversions]") {
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto images = at::randn({2, 3, 4, 4});
  const auto conversions = [](const auto& work) {
    const ConversionCounter counter;
    work();
    return counter.count();
  };
  CHECK(conversions([&] { images.contiguous(last); }) == 1);
  CHECK(conversions([&] { images.clone(last); }) == 1);
  CHECK(conversions([&] { images.to(at::kBFloat16); }) == 1);
  CHECK(conversions([&] { images.to(at::kDouble, false, false, last); }) == 1);
  CHECK(conversions([&] { images.to(at::kFloat); }) == 0);
  CHECK(conversions([&] { images.clone(); }) == 0);
  CHECK(conversions([&] { images.contiguous(last).clone(); }) == 1);
  CHECK(conversions([&] { at::randn({2, 3, 1, 1}).contiguous(last); }) == 0);
  CHECK(conversions([&] { images.slice(3, 1, 3).contiguous(); }) == 0);
  CHECK(conversions([&] { at::ones({1, 3}).expand({5, 3}).contiguous(); }) == 0);
  CHECK(conversions([&] { at::ones({}).to(at::kDouble); }) == 0);
  CHECK_FALSE(at::hasCallbacks());
}

}  // namespace composer::conversions_test
