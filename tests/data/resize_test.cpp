#include "data/resize.h"

#include <catch2/catch.hpp>

#include "composer/random.h"
#include "tests/data/helpers.h"

using namespace composer;
using namespace composer::test;

namespace {

struct Case {
  Image image;
  Box box;
  ImageSize size;
};

std::vector<Case> random_cases(int count) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Random random(1, "resize", 0, static_cast<uint64_t>(i));
    Case one;
    one.image.resize(1 + random.below(i < 40 ? 40 : 400), 1 + random.below(i < 40 ? 40 : 400),
                     i % 4 == 0 ? 1 : 3);
    const bool extreme = i % 3 == 0;
    for (auto& byte : one.image.pixels) {
      byte = static_cast<uint8_t>(extreme ? 255 * random.below(2) : random.below(256));
    }
    const int64_t height = 1 + random.below(one.image.height),
                  width = 1 + random.below(one.image.width);
    one.box = {random.below(one.image.height - height + 1),
               random.below(one.image.width - width + 1), height, width};
    one.size = {1 + random.below(300), 1 + random.below(300)};
    if (i % 7 == 0) one.size.width = width;
    if (i % 11 == 0) one.size.height = height;
    cases.push_back(std::move(one));
  }
  return cases;
}

std::string resized_bytes(const Case& c, const Box& window, bool flip) {
  std::string out(static_cast<size_t>(window.height * window.width * c.image.channels), '\0');
  resize_bilinear(c.image.view(), c.box, c.size, window, flip,
                  reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

Box all_of(ImageSize size) { return {0, 0, size.height, size.width}; }

}  // namespace

TEST_CASE("resize equals Pillow's bilinear resize of a box bit by bit", "[data]") {
  if (!fs::exists(python())) {
    WARN("skipped: no Python environment");
    return;
  }
  const TempFolder folder;
  const auto cases = random_cases(160);
  std::string spec, pixels, ours;
  for (const Case& c : cases) {
    for (const int64_t n :
         {c.image.height, c.image.width, c.image.channels, c.box.left, c.box.top,
          c.box.left + c.box.width, c.box.top + c.box.height, c.size.width, c.size.height}) {
      spec += std::to_string(n) + " ";
    }
    spec += "\n";
    pixels.append(c.image.pixels.begin(), c.image.pixels.end());
    ours += resized_bytes(c, all_of(c.size), false);
  }
  write_file(folder / "spec", spec);
  write_file(folder / "pixels", pixels);
  REQUIRE(run_python(R"(
from PIL import Image
data, at = open("pixels", "rb").read(), 0
with open("out", "wb") as out:
    for line in open("spec"):
        h, w, c, l, t, r, b, ow, oh = map(int, line.split())
        image = Image.frombytes("RGB" if c == 3 else "L", (w, h), data[at:at + h * w * c])
        at += h * w * c
        out.write(image.resize((ow, oh), Image.BILINEAR, box=(l, t, r, b)).tobytes())
)",
                     folder));
  CHECK((read_bytes(folder / "out") == ours));
}

TEST_CASE("resize of a window is that part of the whole, mirrored when flipped", "[data]") {
  for (const Case& c : random_cases(40)) {
    const std::string whole = resized_bytes(c, all_of(c.size), false);
    const Box window{c.size.height / 3, c.size.width / 4, c.size.height - c.size.height / 3,
                     c.size.width - c.size.width / 4};
    for (const bool flip : {false, true}) {
      const std::string part = resized_bytes(c, window, flip);
      bool equal = true;
      for (int64_t y = 0; y < window.height; ++y) {
        for (int64_t x = 0; x < window.width; ++x) {
          const int64_t from = window.left + (flip ? window.width - 1 - x : x);
          for (int64_t k = 0; k < c.image.channels; ++k) {
            equal &= part[static_cast<size_t>((y * window.width + x) * c.image.channels + k)] ==
                     whole[static_cast<size_t>(
                         ((window.top + y) * c.size.width + from) * c.image.channels + k)];
          }
        }
      }
      CHECK(equal);
    }
  }
}
