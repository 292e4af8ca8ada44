#include "data/pixels/orient.h"

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/data/pillow.h"

namespace composer::orient_test {

using namespace composer::test;

namespace {

/// An image of one channel whose pixels are the text's characters; '/' ends a row.
Image drawn(const std::string& text) {
  Image image;
  const auto width = static_cast<int64_t>(text.find('/'));
  image.resize((static_cast<int64_t>(text.size()) + 1) / (width + 1), width, 1);
  size_t i = 0;
  for (const char c : text) {
    if (c != '/') image.pixels[i++] = static_cast<uint8_t>(c);
  }
  return image;
}

std::string text_of(const Image& image) {
  std::string text;
  for (int64_t y = 0; y < image.height; ++y) {
    text += y > 0 ? "/" : "";
    for (int64_t x = 0; x < image.width; ++x) {
      text += static_cast<char>(
          image.pixels[static_cast<size_t>((y * image.width + x) * image.channels)]);
    }
  }
  return text;
}

Image in_three_channels(const Image& gray) {
  Image image;
  image.resize(gray.height, gray.width, 3);
  for (int64_t i = 0; i < gray.height * gray.width; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      image.pixels[static_cast<size_t>(3 * i + c)] =
          static_cast<uint8_t>(gray.pixels[static_cast<size_t>(i)] + 32 * c);
    }
  }
  return image;
}

Image noise(int64_t height, int64_t width) {
  Image image;
  image.resize(height, width, 3);
  Random random(1, "test.noise", 0, 0);
  for (auto& byte : image.pixels) byte = static_cast<uint8_t>(random.bits());
  return image;
}

}  // namespace

TEST_CASE("each orientation by hand", "[data]") {
  const std::map<int, std::string> upright = {
      {0, "ABC/DEF"},  {1, "ABC/DEF"},  {2, "CBA/FED"},  {3, "FED/CBA"},  {4, "DEF/ABC"},
      {5, "AD/BE/CF"}, {6, "DA/EB/FC"}, {7, "FC/EB/DA"}, {8, "CF/BE/AD"}, {9, "ABC/DEF"}};
  for (const auto& [orientation, expected] : upright) {
    INFO("orientation " << orientation);
    Image gray = drawn("ABC/DEF");
    Image colour = in_three_channels(gray);
    apply_orientation(gray, orientation);
    apply_orientation(colour, orientation);
    CHECK(text_of(gray) == expected);
    CHECK(flat(colour) == flat(in_three_channels(gray)));
  }
}

TEST_CASE("a part of the stored image turns into the part of the upright one", "[data]") {
  const Image stored = noise(45, 70);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    INFO("orientation " << orientation);
    Image whole;
    orient(stored.view(), orientation, whole);
    const Box wanted{3, 2, 40, 43};
    const Box box = stored_box(wanted, {stored.height, stored.width}, orientation);
    Image part, expected;
    orient(stored.view().crop(box.top, box.left, box.height, box.width), orientation, part);
    orient(whole.view().crop(wanted.top, wanted.left, wanted.height, wanted.width), 1, expected);
    CHECK((flat(part) == flat(expected)));
  }
}

}  // namespace composer::orient_test
