#include "data/samples/transform.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "data/datasets/dataset_params.h"
#include "data/datasets/shapes.h"
#include "data/jpeg/jpeg.h"
#include "data/pixels/orient.h"
#include "nn/network/batch.h"
#include "tests/files.h"
#include "tests/vectors.h"

namespace composer::transform_test {

using namespace composer::test;
using Kind = Transform::Kind;

namespace {

/// One channel; the pixel at (y, x) is 16 y + x + 1.
Image numbered(int64_t height, int64_t width) {
  Image image;
  image.resize(height, width, 1);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) image.row(y)[x] = static_cast<uint8_t>(16 * y + x + 1);
  }
  return image;
}

std::vector<uint8_t> applied(const Transform& t, const Image& image, ImageSize size,
                             SampleKey place = {}) {
  const auto bytes = static_cast<size_t>(image.height * image.width * image.channels);
  std::vector<uint8_t> out(static_cast<size_t>(size.height * size.width * image.channels), 77);
  const StoredImage stored{.bytes = {image.pixels.data(), bytes},
                           .size = {image.height, image.width},
                           .channels = image.channels};
  Pipeline(t, image.channels).run(stored, size, place, out.data());
  return out;
}

/// Noise of several sizes: pixels and what is asked of them, for Python; what evaluation gives.
struct Evaluated {
  std::string ours, spec, pixels;
};

Evaluated evaluated() {
  Evaluated result;
  auto& [ours, spec, pixels] = result;
  int number = 0;
  for (const auto& [height, width, resize, crop] : {std::array<int64_t, 4>{37, 50, 33, 28},
                                                    {50, 37, 33, 28},
                                                    {90, 31, 20, 25},
                                                    {13, 90, 40, 40},
                                                    {64, 64, -1, 28},
                                                    {21, 70, -1, 32},
                                                    {32, 33, 32, 32},
                                                    {20, 21, 20, 17}}) {
    Image image;
    image.resize(height, width, 3);
    Random random(2, "pixels", 0, static_cast<uint64_t>(number++));
    for (auto& byte : image.pixels) byte = static_cast<uint8_t>(random.below(256));
    pixels.append(image.pixels.begin(), image.pixels.end());
    const auto out =
        applied({.kind = Kind::center_crop, .resize_size = resize, .size = {crop, crop}}, image,
                {crop, crop});
    ours.append(out.begin(), out.end());
    for (const int64_t n : {height, width, resize, crop}) spec += std::to_string(n) + " ";
    spec += "\n";
  }
  return result;
}

}  // namespace

TEST_CASE("centre crop takes the middle, halves rounded to even, and pads with zeros", "[data]") {
  const Image image = numbered(5, 4);
  const auto crop = [&](int64_t height, int64_t width) {
    const ImageSize size{height, width};
    return applied({.kind = Kind::center_crop, .size = size}, image, size);
  };
  CHECK(crop(2, 2) == std::vector<uint8_t>{34, 35, 50, 51});  // offset 1.5 -> 2
  CHECK(crop(4, 1) == std::vector<uint8_t>{3, 19, 35, 51});   // 0.5 -> 0, 1.5 -> 2
  CHECK(crop(1, 7) == std::vector<uint8_t>{0, 33, 34, 35, 36, 0, 0});
}

TEST_CASE("resize for evaluation rounds the longer side down", "[data]") {
  CHECK(resized({375, 500}, 256) == ImageSize{256, 341});
  CHECK(resized({500, 375}, 256) == ImageSize{341, 256});
  CHECK(resized({100, 100}, 7) == ImageSize{7, 7});
}

TEST_CASE("evaluation equals torchvision's Resize and CenterCrop", "[data]") {
  CHECK(fingerprint(evaluated().ours) == recorded("evaluation.txt"));
}

TEST_CASE("evaluation equals Resize and CenterCrop of the torchvision that is installed",
          "[data][peer][recorded][slow]") {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  const TemporaryFolder folder;
  const auto [ours, spec, pixels] = evaluated();
  write_file(folder / "spec", spec);
  write_file(folder / "pixels", pixels);
  REQUIRE(run_python(R"(
from PIL import Image
from torchvision import transforms as T
data, at = open("pixels", "rb").read(), 0
with open("out", "wb") as out:
    for line in open("spec"):
        h, w, resize, crop = map(int, line.split())
        image = Image.frombytes("RGB", (w, h), data[at:at + h * w * 3])
        at += h * w * 3
        if resize > 0:
            image = T.Resize(resize)(image)
        out.write(T.CenterCrop(crop)(image).tobytes())
)",
                     folder));
  const auto theirs = read_bytes(folder / "out");
  CHECK((theirs == ours));
  record("evaluation.txt", fingerprint(theirs));
}

TEST_CASE("the preparation that docs/inference.md shows in Python is that of an evaluation",
          "[data][peer][slow]") {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  const std::string page = read_bytes(SOURCE_DIR "/docs/inference.md");
  const auto begin = page.find("import numpy, torch\nfrom PIL");
  REQUIRE(begin != std::string::npos);
  const auto code = page.substr(begin, page.find("```", begin) - begin);
  const TemporaryFolder folder;
  REQUIRE(run_python(code + R"(
random = numpy.random.default_rng(1)
exif = Image.Exif()
exif[0x0112] = 6
with open("out", "wb") as out, open("spec", "w") as spec:
    for number, (h, w, resize, height, width) in enumerate([
            (37, 50, 33, 28, 28), (50, 37, 33, 28, 28), (90, 31, 20, 25, 21), (13, 90, 40, 40, 40),
            (64, 64, -1, 28, 28), (21, 70, -1, 32, 32), (9, 6, -1, 17, 12), (32, 33, 32, 32, 32)]):
        image = Image.fromarray(random.integers(0, 256, (h, w, 3), dtype=numpy.uint8))
        image.save(f"{number}.png")
        image.resize((w, h), Image.BICUBIC, (0, 0, 5, 5)).save(f"{number}.jpg", quality=95, exif=exif)
        for file, channels in (f"{number}.png", 3), (f"{number}.png", 1), (f"{number}.jpg", 3):
            mean, std = [100.0, 110.0, 120.0][:channels], [50.0, 60.0, 70.0][:channels]
            about = {"channels": channels, "resize_size": resize, "height": height, "width": width,
                     "mean": mean, "std": std}
            pixels = prepared(file, about).permute(1, 2, 0) * torch.tensor(std) + torch.tensor(mean)
            out.write(pixels.round().to(torch.uint8).contiguous().numpy().tobytes())
            print(file, channels, resize, height, width, file=spec)
)",
                     folder));
  const auto theirs = read_bytes(folder / "out");
  size_t at = 0, rows = 0;
  std::ifstream spec(folder / "spec");
  std::string file;
  for (int64_t channels, resize, height, width;
       spec >> file >> channels >> resize >> height >> width; ++rows) {
    CAPTURE(file, channels, resize);
    const auto count = static_cast<size_t>(channels);
    const Preparation preparation{
        .channels = channels,
        .resize_size = resize,
        .size = {height, width},
        .normalization = {std::vector<double>(count, 0), std::vector<double>(count, 1)}};
    const auto loader = open_file_loader({(folder / file).string()}, preparation, LoaderOptions{});
    const auto images = loader->next()->images;
    const auto bytes = static_cast<size_t>(images.numel());
    REQUIRE(at + bytes <= theirs.size());
    int most = 0;
    for (size_t i = 0; i < bytes; ++i)
      most = std::max(most, std::abs(static_cast<uint8_t>(theirs[at + i]) -
                                     images.const_data_ptr<uint8_t>()[i]));
    CHECK(most <= (file.ends_with(".jpg") ? 1 : 0));  // libjpeg may be another one
    at += bytes;
  }
  CHECK(rows == 24);
  CHECK(at == theirs.size());
}

TEST_CASE("random crops cover area and ratio as asked and fall back for thin images", "[data]") {
  double area = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    Random random(3, "crop", 0, i);
    const Box box = draw_crop({300, 400}, random);
    REQUIRE((box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0));
    REQUIRE((box.top + box.height <= 300 && box.left + box.width <= 400));
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    CHECK((ratio > 0.74 && ratio < 1.36));
    area += static_cast<double>(box.height * box.width) / (300 * 400);
  }
  CHECK(area / 2000 == Approx(0.434).margin(0.02));  // torchvision's: large ones often do not fit
  Random thin(3, "crop", 0, 1);
  const Box box = draw_crop({10, 1000}, thin);
  CHECK((box.height == 10 && box.width == 13 && box.left == 493));
  Random dot(3, "crop", 0, 2);
  const Box one = draw_crop({1, 5000}, dot);
  CHECK((one.height == 1 && one.width == 1));
}

TEST_CASE("pad and crop shifts by up to the padding, fills with zeros and flips half", "[data]") {
  const Image image = numbered(8, 8);
  const Transform t{.kind = Kind::pad_and_crop, .size = {8, 8}};
  std::set<std::pair<int64_t, int64_t>> shifts;
  int flips = 0, found = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    const auto out = applied(t, image, {8, 8}, {5, 1, sample});
    for (int64_t dy = -4; dy <= 4; ++dy) {
      for (int64_t dx = -4; dx <= 4; ++dx) {
        for (const bool flip : {false, true}) {
          bool equal = true;
          for (int64_t y = 0; y < 8 && equal; ++y) {
            for (int64_t x = 0; x < 8; ++x) {
              const int64_t fy = y + dy, fx = (flip ? 7 - x : x) + dx;
              const bool inside = fy >= 0 && fy < 8 && fx >= 0 && fx < 8;
              const int expected = inside ? static_cast<uint8_t>(16 * fy + fx + 1) : 0;
              equal = equal && out[static_cast<size_t>(8 * y + x)] == expected;
            }
          }
          if (equal) ++found, flips += flip, shifts.insert({dy, dx});
        }
      }
    }
  }
  CHECK(found == 1000);
  CHECK(shifts.size() == 81);
  CHECK(flips == Approx(500).margin(60));
}

TEST_CASE("augmentation repeats for the same place and differs for another", "[data]") {
  const Image image = numbered(15, 16);
  const Transform t{.kind = Kind::random_resized_crop, .size = {8, 8}};
  const auto base = applied(t, image, t.size, {1, 2, 3});
  CHECK(base == applied(t, image, t.size, {1, 2, 3}));
  CHECK(base != applied(t, image, t.size, {2, 2, 3}));
  CHECK(base != applied(t, image, t.size, {1, 3, 3}));
  CHECK(base != applied(t, image, t.size, {1, 2, 4}));
}

TEST_CASE("a shorter side is resized before the random crop", "[data]") {
  const Image image = numbered(15, 12);
  const Transform direct{.kind = Kind::random_resized_crop, .size = {6, 6}};
  Transform after = direct;
  after.resize_size = 8;
  Image small;
  small.resize(10, 8, 1);
  ResizePlan plan;
  plan.make(ResizeFilter::triangle, {15, 12}, {0, 0, 15, 12}, {10, 8}, {0, 0, 10, 8});
  plan.run(image.view(), false, small.pixels.data());
  CHECK(applied(after, image, {6, 6}) == applied(direct, small, {6, 6}));
}

namespace {

/// A drawing with smooth parts and edges, as a JPEG stream and as the pixels that it decodes to.
struct Drawing {
  std::vector<uint8_t> stream;
  Image pixels;

  explicit Drawing(int64_t size) : stream(encode_jpeg(draw_shape(true, 3, size).view(), 95)) {
    decode_jpeg(stream, pixels);
  }
  StoredImage stored() const {
    return {.jpeg = true, .bytes = stream, .size = {pixels.height, pixels.width}};
  }
};

std::vector<uint8_t> run(const Transform& t, const StoredImage& image, ImageSize size,
                         uint64_t sample) {
  std::vector<uint8_t> out(static_cast<size_t>(size.height * size.width * 3));
  Pipeline(t, 3).run(image, size, {17, 0, sample}, out.data());
  return out;
}

double mean_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("decoding the crop alone gives the pixels of decoding all", "[data]") {
  const Drawing drawing(150);
  for (const auto kind :
       {Kind::random_resized_crop, Kind::center_crop, Kind::pad_and_crop, Kind::whole}) {
    Transform t{.kind = kind, .size = {64, 64}};
    if (kind == Kind::center_crop) t.resize_size = 80;
    for (uint64_t sample = 0; sample < 20; ++sample) {
      const StoredImage pixels{.bytes = drawing.pixels.pixels, .size = {150, 150}, .channels = 3};
      CHECK(run(t, drawing.stored(), t.size, sample) == run(t, pixels, t.size, sample));
    }
  }
}

TEST_CASE("decoding at a fraction changes large crops little", "[data]") {
  const Drawing drawing(512);
  Transform exact{.kind = Kind::random_resized_crop, .size = {48, 48}}, scaled = exact;
  scaled.scaled_decode = true;
  int different = 0;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const auto a = run(exact, drawing.stored(), exact.size, sample);
    const auto b = run(scaled, drawing.stored(), exact.size, sample);
    CHECK(mean_difference(a, b) < 2.5);
    different += a != b;
  }
  CHECK(different > 10);
}

TEST_CASE("a smaller size of the plan is near the full size made smaller", "[data]") {
  const Drawing drawing(300);
  for (const bool scaled : {false, true}) {
    const Transform t{
        .kind = Kind::random_resized_crop, .size = {128, 128}, .scaled_decode = scaled};
    for (uint64_t sample = 0; sample < 20; ++sample) {
      const auto full = run(t, drawing.stored(), {128, 128}, sample);
      const auto small = run(t, drawing.stored(), {64, 64}, sample);
      std::vector<uint8_t> later(64 * 64 * 3);
      ResizePlan plan;
      plan.make(ResizeFilter::triangle, {128, 128}, {0, 0, 128, 128}, {64, 64}, {0, 0, 64, 64});
      plan.run({full.data(), 128, 128, 3, 128 * 3}, false, later.data());
      CHECK(mean_difference(small, later) < 3);
    }
  }
}

TEST_CASE("a stream that lies on its side is cropped as if it stood upright", "[data]") {
  const Drawing drawing(150);
  for (int orientation = 2; orientation <= 8; ++orientation) {
    Image upright;
    orient(drawing.pixels.view(), orientation, upright);
    StoredImage turned_stream = drawing.stored();
    turned_stream.orientation = orientation;
    const StoredImage pixels{.bytes = upright.pixels, .size = {150, 150}, .channels = 3};
    const Transform t{.kind = Kind::random_resized_crop, .size = {32, 32}};
    for (uint64_t sample = 0; sample < 5; ++sample) {
      CHECK(run(t, turned_stream, t.size, sample) == run(t, pixels, t.size, sample));
    }
  }
}

}  // namespace composer::transform_test
