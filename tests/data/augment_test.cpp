#include "data/pixels/augment.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/each_target.h"

namespace composer::augment_test {

namespace {

using Bytes = std::vector<uint8_t>;

/// An image of noise whose bytes `change` works on.
struct Noise {
  Bytes bytes;
  MutableImage image;

  Noise(int64_t height, int64_t width, int64_t channels, uint64_t seed)
      : bytes(static_cast<size_t>(height * width * channels)),
        image{bytes.data(), height, width, channels} {
    Random random(seed, "noise", 0, 0);
    for (auto& byte : bytes) byte = static_cast<uint8_t>(random.below(256));
  }
};

template <class Change>
Bytes changed(Bytes rgb, Change change) {
  const auto pixels = static_cast<int64_t>(rgb.size()) / 3;
  change(MutableImage{rgb.data(), 1, pixels, 3});
  return rgb;
}

int64_t luma(const uint8_t* rgb) {
  return static_cast<int64_t>(0.2989 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]);
}

uint8_t blended(double factor, double value, double other) {
  return static_cast<uint8_t>(std::clamp(factor * value + (1 - factor) * other, 0.0, 255.0));
}

constexpr SampleKey kPlace{5, 1, 7};

}  // namespace

TEST_CASE("brightness, contrast and saturation: values by hand", "[data]") {
  const Bytes rgb{100, 150, 200, 10, 0, 255};
  CHECK(changed(rgb, [](const auto& i) { adjust_brightness(i, 1.5); }) ==
        Bytes{150, 225, 255, 15, 0, 255});
  CHECK(changed(rgb, [](const auto& i) { adjust_brightness(i, 0.33); }) ==
        Bytes{33, 49, 66, 3, 0, 84});
  // Lumas: 29.89 + 88.05 + 22.8 = 140.74 and 2.989 + 29.07 = 32.059; their mean: (140 + 32) / 2.
  CHECK(changed(rgb, [](const auto& i) { adjust_contrast(i, 0.5); }) ==
        Bytes{93, 118, 143, 48, 43, 170});
  CHECK(changed(rgb, [](const auto& i) { adjust_contrast(i, 0); }) ==
        Bytes{86, 86, 86, 86, 86, 86});
  CHECK(changed(rgb, [](const auto& i) { adjust_saturation(i, 0); }) ==
        Bytes{140, 140, 140, 32, 32, 32});
  CHECK(changed(rgb, [](const auto& i) { adjust_saturation(i, 2); }) ==
        Bytes{60, 160, 255, 0, 0, 255});
  for (const auto adjust : {adjust_brightness, adjust_contrast, adjust_saturation}) {
    CHECK(changed(rgb, [&](const auto& i) { adjust(i, 1); }) == rgb);
  }
}

TEST_CASE("colour changes follow FFCV's formulas with any vector instructions", "[data]") {
  for (const int64_t target : test::targets()) {
    const test::OnlyTarget only(target);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Noise noise(17, 31, 3, seed);
      const Bytes before = noise.bytes;
      const double factor = Random(seed, "factor", 0, 0).uniform(0, 2);
      double sum = 0;
      for (size_t i = 0; i < before.size(); i += 3) sum += static_cast<double>(luma(&before[i]));
      const double mean = sum / (17 * 31);
      Bytes bright, contrast, saturated;
      for (size_t i = 0; i < before.size(); ++i) {
        const double gray = static_cast<double>(luma(&before[i / 3 * 3]));
        bright.push_back(blended(factor, before[i], 0));
        contrast.push_back(blended(factor, before[i], mean));
        saturated.push_back(blended(factor, before[i], gray));
      }
      adjust_brightness(noise.image, factor);
      CHECK((noise.bytes == bright));
      std::copy(before.begin(), before.end(), noise.bytes.begin());
      adjust_contrast(noise.image, factor);
      CHECK((noise.bytes == contrast));
      std::copy(before.begin(), before.end(), noise.bytes.begin());
      adjust_saturation(noise.image, factor);
      CHECK((noise.bytes == saturated));
    }
  }
}

TEST_CASE("one channel: contrast is about the mean, saturation changes nothing", "[data]") {
  Bytes bytes{10, 30};
  const MutableImage image{bytes.data(), 2, 1, 1};
  adjust_saturation(image, 0);
  make_gray(image);
  CHECK(bytes == Bytes{10, 30});
  adjust_contrast(image, 2);
  CHECK(bytes == Bytes{0, 40});
}

TEST_CASE("grayscale and solarize: values by hand", "[data]") {
  // (100 * 19595 + 150 * 38470 + 200 * 7471 + 32768) >> 16 = 141; pure green: 149.685.
  CHECK(changed({100, 150, 200, 0, 255, 0}, make_gray) == Bytes{141, 141, 141, 150, 150, 150});
  CHECK(changed({0, 127, 128, 255, 200, 1}, [](const auto& i) { solarize(i, 128); }) ==
        Bytes{0, 127, 127, 0, 55, 1});
  CHECK(changed({0, 127, 255}, [](const auto& i) { solarize(i, 256); }) == Bytes{0, 127, 255});
}

TEST_CASE("fill_box paints the box and nothing else", "[data]") {
  Noise noise(6, 8, 3, 1);
  const Bytes before = noise.bytes;
  fill_box(noise.image, {2, 3, 3, 4}, {1, 2, 3});
  for (int64_t y = 0; y < 6; ++y) {
    for (int64_t x = 0; x < 8; ++x) {
      const bool inside = y >= 2 && y < 5 && x >= 3 && x < 7;
      for (int64_t c = 0; c < 3; ++c) {
        const auto i = static_cast<size_t>((y * 8 + x) * 3 + c);
        CHECK(noise.bytes[i] == (inside ? c + 1 : before[i]));
      }
    }
  }
  fill_box(noise.image, {0, 0, 0, 5}, {9, 9, 9});
  CHECK(noise.bytes[0] == before[0]);
}

TEST_CASE("cutout squares lie inside and reach every border", "[data]") {
  int64_t lowest = 100, highest = -1;
  for (uint64_t i = 0; i < 500; ++i) {
    Random random(1, "cutout", 0, i);
    const Box box = draw_cutout({12, 20}, 5, random);
    CHECK((box.height == 5 && box.width == 5));
    CHECK((box.top >= 0 && box.top <= 7 && box.left >= 0 && box.left <= 15));
    lowest = std::min(lowest, box.left), highest = std::max(highest, box.left);
  }
  CHECK(lowest == 0);
  CHECK(highest == 15);
  Random random(1, "cutout", 0, 0);
  CHECK(draw_cutout({4, 6}, 10, random).height == 4);
}

TEST_CASE("factors and erased parts follow their laws", "[data]") {
  double lowest = 9, highest = -9, area = 0;
  int drawn = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    Random random(2, "law", 0, i);
    const double factor = draw_factor(0.4, random);
    lowest = std::min(lowest, factor), highest = std::max(highest, factor);
    const double strong = draw_factor(1.5, random);
    CHECK((strong >= 0 && strong < 2.5));
    const auto box = draw_erasing({100, 60}, {}, random);
    if (!box) continue;
    ++drawn;
    area += static_cast<double>(box->height * box->width) / 6000;
    CHECK((box->height < 100 && box->width < 60));
    CHECK((box->top >= 0 && box->top + box->height <= 100));
    CHECK((box->left >= 0 && box->left + box->width <= 60));
  }
  CHECK(lowest == Approx(0.6).margin(0.005));
  CHECK(highest == Approx(1.4).margin(0.005));
  CHECK(drawn > 1990);
  CHECK(area / drawn == Approx(0.17).margin(0.02));
  Random random(2, "law", 0, 0);
  CHECK_FALSE(draw_erasing({10, 10}, {1, 1, 1, 1}, random).has_value());
}

TEST_CASE("transforms depend on the sample's place and change as many as they say", "[data]") {
  const std::vector<SampleTransform> all{
      random_cutout(4, {0, 0, 0}, 0.5),
      random_brightness(0.9),
      random_contrast(0.9),
      random_saturation(0.9),
      random_erasing({0, 0, 0}),
      random_grayscale(0.5),
      random_solarize(),
  };
  for (const auto& transform : all) {
    int changes = 0;
    for (uint64_t sample = 0; sample < 400; ++sample) {
      Noise first(8, 9, 3, 3), second(8, 9, 3, 3);
      const Bytes before = first.bytes;
      transform(first.image, {5, 1, sample});
      transform(second.image, {5, 1, sample});
      CHECK((first.bytes == second.bytes));
      changes += first.bytes != before;
    }
    CHECK(changes > 150);
    CHECK(changes < 250);
  }
  Noise noise(8, 9, 3, 3);
  const Bytes before = noise.bytes;
  random_brightness(0.9, 0)(noise.image, kPlace);
  CHECK((noise.bytes == before));
  random_cutout(8, {4, 4, 4})(noise.image, kPlace);
  CHECK(std::count(noise.bytes.begin(), noise.bytes.end(), 4) >= 8 * 8 * 3);
  // Chosen for images three times as wide.
  MutableImage small = noise.image;
  std::fill(noise.bytes.begin(), noise.bytes.end(), 0);
  random_cutout(9, {7, 7, 7}, 1, small.width * 3)(small, kPlace);
  CHECK(std::count(noise.bytes.begin(), noise.bytes.end(), 7) == 3 * 3 * small.channels);
}

}  // namespace composer::augment_test
