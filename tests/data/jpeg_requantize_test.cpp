// Photographs encoded again without pixels are those that were decoded and encoded.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "data/jpeg/decoder.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/requantize.h"
#include "tests/data/make_jpeg.h"
#include "tests/each_target.h"
#include "tests/files.h"

namespace composer::jpeg_requantize_test {

using namespace composer::test;
namespace fs = std::filesystem;

namespace {

Image decoded(std::span<const uint8_t> bytes) {
  Image image;
  decode_jpeg(bytes, image);
  return image;
}

/// The root of the mean square of the differences between pixels.
double distance(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const double difference = static_cast<double>(a.pixels[i]) - b.pixels[i];
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(a.pixels.size()));
}

std::vector<uint8_t> head_of(const std::vector<uint8_t>& bytes) {
  JpegScan scan;
  REQUIRE(scan.parse(bytes));
  return {bytes.begin(), bytes.end() - static_cast<long>(scan.codes.size())};
}

/// Beside what a decoder and encoder make of the stream. loss: of another one more, at most.
void check(std::span<const uint8_t> source, int quality, double loss) {
  JpegRequantizer requantizer;
  const auto made = requantizer.run(source, quality);
  if (requantize_kernels().scale == nullptr) {
    CHECK_FALSE(made);
    return;
  }
  REQUIRE(made);
  const Image original = decoded(source);
  const auto expected = encode_jpeg(original.view(), quality);
  CHECK(head_of(made->bytes) == head_of(expected));
  CHECK(made->index == make_jpeg_index(made->bytes));
  std::string warnings;
  Image pixels;
  decode_jpeg(made->bytes, pixels, &warnings);
  CHECK(warnings.empty());
  const double by_pixels = distance(decoded(expected), original);
  CHECK(distance(pixels, original) < by_pixels + loss);
  // Less where pixels would have added the noise of their rounding.
  CHECK(made->bytes.size() < expected.size() + expected.size() / 20 + 64);
}

}  // namespace

TEST_CASE("a stream of another quality holds the picture as if it had been decoded",
          "[data][jpeg]") {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{96, 128},
                                      {75, 91},
                                      {17, 40},
                                      {16, 9},
                                      {8, 8},
                                      {1, 1},
                                      {33, 200}})
    for (const int samples : {1, 2})
      for (const int from : {60, 95})
        for (const int to : {1, 30, 75, 90, 100}) {
          CAPTURE(height, width, samples, from, to);
          const auto source = make_jpeg(make_picture(height, width),
                                        {.quality = from, .h_samp = samples, .v_samp = samples});
          check(source, to, height * width < 400 ? 4 : 0.3);  // of a few blocks, by chance
        }
}

TEST_CASE("every processor writes the same stream of another quality", "[data][jpeg]") {
  const auto full = make_jpeg(make_picture(75, 91), {.quality = 95, .h_samp = 1, .v_samp = 1});
  const auto halved = make_jpeg(make_picture(75, 91), {.quality = 80});
  JpegRequantizer requantizer;
  const auto first = requantizer.run(full, 90), second = requantizer.run(halved, 90);
  for (const auto target : targets()) {
    const OnlyTarget only(target);
    CAPTURE(target);
    if (requantize_kernels().scale == nullptr) {
      CHECK_FALSE(requantizer.run(full, 90));
      continue;
    }
    CHECK(requantizer.run(full, 90)->bytes == first->bytes);
    CHECK(requantizer.run(halved, 90)->bytes == second->bytes);
  }
}

TEST_CASE("streams of other kinds are left to a decoder", "[data][jpeg]") {
  const Image picture = make_picture(40, 60);
  JpegRequantizer requantizer;
  const auto refused = [&](const std::vector<uint8_t>& bytes) {
    return !requantizer.run(bytes, 90).has_value();
  };
  CHECK(refused(make_jpeg(picture, {.h_samp = 2, .v_samp = 1})));
  CHECK(refused(make_jpeg(picture, {.h_samp = 1, .v_samp = 1, .coded = JCS_RGB})));
  CHECK(refused(make_jpeg(picture, {.progressive = true})));
  CHECK(refused(make_jpeg(picture, {.restart_interval = 3})));
  CHECK(refused(make_jpeg(make_picture(40, 60, 1), {.coded = JCS_GRAYSCALE})));
  CHECK(refused({}));
  auto cut = make_jpeg(picture);
  cut.resize(cut.size() - cut.size() / 4);
  CHECK(refused(cut));
  CHECK_FALSE(refused(make_jpeg(picture)));
}

TEST_CASE("photographs of another quality are as good as decoded ones", "[data][jpeg][slow]") {
  const fs::path photos = shared_data() / "photos" / "imagenet_sample";
  if (!fs::exists(photos)) {
    WARN("skipped: there are no photographs in " << photos.string());
    return;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(photos))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  JpegRequantizer requantizer;
  int compared = 0;
  for (size_t i = 0; i < files.size(); i += 5) {
    std::ifstream file(files[i], std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (!requantizer.run(bytes, 90)) continue;
    CAPTURE(files[i]);
    check(bytes, 90, 0.1);
    ++compared;
  }
  if (requantize_kernels().scale != nullptr) CHECK(compared > 0);
}

}  // namespace composer::jpeg_requantize_test
