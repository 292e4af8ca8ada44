#include "data/pixels/resize.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/random.h"
#include "data/pixels/copy.h"
#include "tests/each_target.h"
#include "tests/files.h"
#include "tests/vectors.h"

namespace composer::resize_test {

using namespace composer::test;

namespace {

struct Case {
  Image image;
  Area area;
  ImageSize size;
};

void fill_noise(Image& image, bool extreme, Random& random) {
  for (auto& byte : image.pixels) {
    byte = static_cast<uint8_t>(extreme ? 255 * random.below(2) : random.below(256));
  }
}

Box random_box(ImageSize image, Random& random) {
  const int64_t height = 1 + random.below(image.height), width = 1 + random.below(image.width);
  return {random.below(image.height - height + 1), random.below(image.width - width + 1), height,
          width};
}

/// Enlarging, shrinking (some by a lot, some by whole factors), equal sizes, one channel, borders
/// between pixels where allowed.
std::vector<Case> random_cases(int count, bool between_pixels) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Random random(1, "resize", 0, static_cast<uint64_t>(i));
    Case one;
    const int64_t most = i < 40 ? 40 : i % 10 == 0 ? 1500 : 400;
    one.image.resize(1 + random.below(most), 1 + random.below(i % 10 == 0 ? 300 : most),
                     i % 4 == 0 ? 1 : 3);
    if (i % 20 == 0) std::swap(one.image.height, one.image.width);
    fill_noise(one.image, i % 3 == 0, random);
    const ImageSize whole{one.image.height, one.image.width};
    const Box box = random_box(whole, random);
    one.area = {static_cast<double>(box.top), static_cast<double>(box.left),
                static_cast<double>(box.height), static_cast<double>(box.width)};
    one.size = {1 + random.below(300), 1 + random.below(300)};
    if (i % 7 == 0) one.size.width = box.width;
    if (i % 11 == 0) one.size.height = box.height;
    if (i % 13 == 0) one.size = {std::max<int64_t>(box.height / 2, 1), box.width};
    if (between_pixels && i % 5 == 1 && box.height > 1 && box.width > 1) {
      one.area.top += random.uniform(), one.area.left += random.uniform();
      one.area.height -= 1 + random.uniform(0, 0.5), one.area.width -= 1 + random.uniform(0, 0.5);
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

Box all_of(ImageSize size) { return {0, 0, size.height, size.width}; }

std::string bytes_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// By a plan, from a copy of nothing but the pixels it asks for.
std::string resized(ResizePlan& plan, ResizeFilter filter, const Case& c, const Box& window,
                    bool flip) {
  plan.make(filter, {c.image.height, c.image.width}, c.area, c.size, window);
  const Box& box = plan.needed();
  const ImageView part = c.image.view().crop(box.top, box.left, box.height, box.width);
  std::vector<uint8_t> needed(static_cast<size_t>(box.height * box.width * part.channels));
  copy_pixels(part, false, needed.data());
  std::vector<uint8_t> out(static_cast<size_t>(window.height * window.width * part.channels));
  plan.run({needed.data(), box.height, box.width, part.channels, box.width * part.channels}, flip,
           out.data());
  return bytes_of(out);
}

std::string resized(ResizeFilter filter, const Case& c) {
  ResizePlan plan;
  return resized(plan, filter, c, all_of(c.size), false);
}

/// The part of an image in bytes, mirrored if wanted.
std::string part_of(const std::string& bytes, ImageSize size, int64_t channels, const Box& window,
                    bool flip) {
  const ImageView whole{reinterpret_cast<const uint8_t*>(bytes.data()), size.height, size.width,
                        channels, size.width * channels};
  std::string part;
  for (int64_t y = 0; y < window.height; ++y) {
    for (int64_t x = 0; x < window.width; ++x) {
      const int64_t from = window.left + (flip ? window.width - 1 - x : x);
      const uint8_t* pixel = whole.row(window.top + y) + from * channels;
      part.append(pixel, pixel + channels);
    }
  }
  return part;
}

/// Writes the cases as the files "spec" and "pixels".
void write_cases(const std::vector<Case>& cases, const TemporaryFolder& folder) {
  std::ostringstream spec;
  spec << std::setprecision(17);
  std::string pixels;
  for (const Case& c : cases) {
    spec << c.image.height << ' ' << c.image.width << ' ' << c.image.channels << ' ' << c.area.top
         << ' ' << c.area.left << ' ' << c.area.height << ' ' << c.area.width << ' '
         << c.size.height << ' ' << c.size.width << '\n';
    pixels.append(c.image.pixels.begin(), c.image.pixels.end());
  }
  write_file(folder / "spec", spec.str());
  write_file(folder / "pixels", pixels);
}

constexpr const char* kReadCases = R"(
data, at = open("pixels", "rb").read(), 0
def cases():
    global at
    for line in open("spec"):
        h, w, c, top, left, height, width, oh, ow = map(float, line.split())
        h, w, c, oh, ow = map(int, (h, w, c, oh, ow))
        yield data[at:at + h * w * c], h, w, c, top, left, height, width, oh, ow
        at += h * w * c
)";

/// expected: the fingerprint of all results.
void check_pillow(ResizeFilter filter, const std::vector<Case>& cases,
                  const std::string& expected) {
  for (const int64_t target : targets()) {
    const OnlyTarget only(target);
    std::string ours;
    for (const Case& c : cases) ours += resized(filter, c);
    CHECK(fingerprint(ours) == expected);
  }
}

}  // namespace

TEST_CASE("resize equals Pillow's bilinear and bicubic resize of a box bit by bit", "[data]") {
  check_pillow(ResizeFilter::triangle, random_cases(200, true), recorded("resize.txt"));
  check_pillow(ResizeFilter::bicubic, random_cases(200, true), recorded("resize_bicubic.txt"));
}

TEST_CASE("resize equals that of the Pillow that is installed", "[data][peer][recorded]") {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  const auto cases = random_cases(200, true);
  for (const auto& [filter, name, vector] :
       {std::tuple(ResizeFilter::triangle, "BILINEAR", "resize.txt"),
        std::tuple(ResizeFilter::bicubic, "BICUBIC", "resize_bicubic.txt")}) {
    const TemporaryFolder folder;
    write_cases(cases, folder);
    REQUIRE(run_python(std::string(kReadCases)
                           .append(R"(
from PIL import Image
with open("out", "wb") as out:
    for pixels, h, w, c, t, l, bh, bw, oh, ow in cases():
        image = Image.frombytes("RGB" if c == 3 else "L", (w, h), pixels)
        box = (l, t, l + bw, t + bh)
        out.write(image.resize((ow, oh), Image.)")
                           .append(name)
                           .append(", box=box).tobytes())\n"),
                       folder));
    const auto theirs = fingerprint(read_bytes(folder / "out"));
    check_pillow(filter, cases, theirs);
    record(vector, theirs);
  }
}

TEST_CASE("resize by area equals FFCV's bit by bit", "[data][peer]") {
  const char* python = std::getenv("COMPOSER_FFCV_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_FFCV_PYTHON names no Python with FFCV");
    return;
  }
  const TemporaryFolder folder;
  auto cases = random_cases(300, false);
  std::erase_if(cases, [](const Case& c) { return c.image.channels == 1; });
  write_cases(cases, folder);
  write_file(folder / "script.py", std::string(kReadCases).append(R"(
import numpy as np
from ffcv.libffcv import resize_crop
with open("out", "wb") as out:
    for pixels, h, w, c, t, l, bh, bw, oh, ow in cases():
        image = np.frombuffer(pixels, np.uint8).reshape(h, w, c).copy()
        result = np.zeros((oh, ow, c), np.uint8)
        resize_crop(image, int(t), int(t + bh), int(l), int(l + bw), result)
        out.write(result.tobytes())
)"));
  const std::string command = std::string(python).append(" script.py");
  REQUIRE(std::system(("cd " + folder.path().string() + " && " + command).c_str()) == 0);
  const std::string theirs = read_bytes(folder / "out");
  for (const int64_t target : targets()) {
    const OnlyTarget only(target);
    std::string ours;
    for (const Case& c : cases) ours += resized(ResizeFilter::area, c);
    CHECK((theirs == ours));
  }
}

TEST_CASE("resize by area: means where it shrinks, two taps where it enlarges", "[data]") {
  const auto gray = [](int64_t height, int64_t width, std::vector<uint8_t> pixels, ImageSize size) {
    Case one;
    one.image.resize(height, width, 1);
    one.image.pixels = std::move(pixels);
    one.area = {0, 0, static_cast<double>(height), static_cast<double>(width)};
    one.size = size;
    const std::string out = resized(ResizeFilter::area, one);
    return std::vector<int>(reinterpret_cast<const uint8_t*>(out.data()),
                            reinterpret_cast<const uint8_t*>(out.data()) + out.size());
  };
  // Half a level goes up for 2 x 2, to the even neighbour for other whole factors.
  CHECK(gray(2, 2, {1, 2, 1, 2}, {1, 1}) == std::vector<int>{2});
  CHECK(gray(1, 2, {2, 3}, {1, 1}) == std::vector<int>{2});
  CHECK(gray(1, 4, {10, 20, 30, 50}, {1, 2}) == std::vector<int>{15, 40});
  // 3 -> 2: (90 + 30 / 2) / 1.5 and (30 / 2 + 0) / 1.5.
  CHECK(gray(1, 3, {90, 30, 0}, {1, 2}) == std::vector<int>{70, 10});
  // 2 -> 3: the middle pixel lies half on each; 2 -> 4 repeats.
  CHECK(gray(1, 2, {0, 200}, {1, 3}) == std::vector<int>{0, 100, 200});
  CHECK(gray(1, 2, {0, 200}, {1, 4}) == std::vector<int>{0, 0, 200, 200});
  CHECK(gray(2, 2, {1, 2, 3, 4}, {2, 2}) == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("resize gives the same bytes with any vector instructions, flip and window", "[data]") {
  ResizePlan reused;
  for (const auto& [word, filter] : resize_filter_words) {
    INFO(word);
    for (const Case& c : random_cases(60, filter != ResizeFilter::area)) {
      const int64_t channels = c.image.channels;
      std::string whole;
      {
        const OnlyTarget only(targets().back());
        whole = resized(filter, c);
      }
      Random random(2, "window", 0, static_cast<uint64_t>(c.size.height * 1000 + c.size.width));
      const Box some = random_box(c.size, random);
      for (const int64_t target : targets()) {
        const OnlyTarget only(target);
        INFO(hwy::TargetName(target));
        for (const Box& window : {all_of(c.size), some}) {
          for (const bool flip : {false, true}) {
            const bool equal = resized(reused, filter, c, window, flip) ==
                               part_of(whole, c.size, channels, window, flip);
            CHECK(equal);
          }
        }
      }
    }
  }
}

TEST_CASE("resize refuses what does not lie in the image", "[data]") {
  ResizePlan plan;
  const auto make = [&](ResizeFilter filter, const Area& area, const Box& window) {
    plan.make(filter, {10, 20}, area, {5, 5}, window);
  };
  const Box all{0, 0, 5, 5};
  CHECK_THROWS_AS(make(ResizeFilter::triangle, {0, 0.5, 10, 20}, all), RunError);
  CHECK_THROWS_AS(make(ResizeFilter::triangle, {-1, 0, 10, 20}, all), RunError);
  CHECK_THROWS_AS(make(ResizeFilter::triangle, {0, 0, 10, 20}, {0, 1, 5, 5}), RunError);
  CHECK_THROWS_AS(make(ResizeFilter::area, {0, 0.5, 10, 19}, all), RunError);
  CHECK_NOTHROW(make(ResizeFilter::triangle, {0, 0.5, 10, 19.5}, all));
}

TEST_CASE("copy_window pads, mirrors and cuts", "[data]") {
  const auto reflected = [](int64_t i, int64_t n) {
    while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
    return n == 1 ? 0 : i;
  };
  for (const int64_t target : targets()) {
    const OnlyTarget only(target);
    for (uint64_t i = 0; i < 400; ++i) {
      Random random(4, "copy", 0, i);
      Image image;
      image.resize(1 + random.below(9), 1 + random.below(i % 2 == 0 ? 8 : 70), i % 3 == 0 ? 1 : 3);
      fill_noise(image, false, random);
      const int64_t c = image.channels;
      const Box window{random.below(20) - 10, random.below(60) - 30, 1 + random.below(15),
                       1 + random.below(70)};
      const Border border{i % 2 == 0, {7, 8, 9}};
      const bool flip = i % 5 < 2;
      std::string expected;
      for (int64_t y = 0; y < window.height; ++y) {
        for (int64_t x = 0; x < window.width; ++x) {
          int64_t v = window.top + y, u = window.left + (flip ? window.width - 1 - x : x);
          if (border.reflect) v = reflected(v, image.height), u = reflected(u, image.width);
          const bool inside = v >= 0 && u >= 0 && v < image.height && u < image.width;
          const uint8_t* pixel = inside ? image.row(v) + u * c : border.fill.data();
          expected.append(pixel, pixel + c);
        }
      }
      std::vector<uint8_t> out(expected.size());
      copy_window(image.view(), window, border, flip, out.data());
      CHECK((bytes_of(out) == expected));
    }
  }
}

}  // namespace composer::resize_test
