#include "data/formats/decode.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/jpeg/decoder.h"
#include "data/jpeg/jpeg.h"
#include "tests/data/pillow.h"

namespace composer::decode_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

Image gradient(int64_t height, int64_t width) {
  Image image;
  image.resize(height, width, 3);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.row(y) + 3 * x;
      pixel[0] = static_cast<uint8_t>(4 * y), pixel[1] = static_cast<uint8_t>(4 * x),
      pixel[2] = 128;
    }
  }
  return image;
}

std::string jpeg_file() {
  const auto bytes = encode_jpeg(gradient(40, 50).view(), 95);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("a JPEG round trip keeps a smooth image nearly as it was", "[data]") {
  const Image before = gradient(40, 50);
  const std::string file = jpeg_file();
  Image after;
  decode_image(bytes_of(file), after);
  REQUIRE(after.height == 40);
  REQUIRE(after.width == 50);
  int worst = 0;
  for (size_t i = 0; i < 40 * 50 * 3; ++i) {
    worst = std::max(worst, std::abs(int{before.pixels[i]} - int{after.pixels[i]}));
  }
  CHECK(worst < 12);
}

TEST_CASE("a JPEG cut anywhere is refused with a reason, but for its end marker", "[data]") {
  const std::string file = jpeg_file();
  Image image;
  for (size_t length = 3; length < file.size() - 20; length += 7) {
    CHECK_THROWS_WITH(decode_image(bytes_of(file.substr(0, length)), image),
                      Contains("JPEG") && Contains("("));
  }
  CHECK_NOTHROW(decode_image(bytes_of(file.substr(0, file.size() - 2)), image));
}

TEST_CASE("what a JPEG asks for is checked before memory is", "[data]") {
  std::string file = jpeg_file();
  file.replace(file.find("\xFF\xC0") + 5, 4, "\x32\xC8\x32\xC8");  // 13,000 x 13,000 pixels
  Image image;
  CHECK_THROWS_WITH(decode_image(bytes_of(file), image), Contains("too early"));
  CHECK(image.pixels.capacity() == 0);
  JpegDecoder decoder;
  CHECK_THROWS_WITH(decoder.decode(bytes_of(file), {{0, 0, 13'000, 13'000}}),
                    Contains("too early"));
  CHECK(decoder.room() == 0);
}

TEST_CASE("a JPEG damaged anywhere decodes or is refused, and never crashes", "[data]") {
  const std::string file = jpeg_file();
  Image image;
  int refused = 0;
  for (size_t at = 2; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0xFF : 0x10));
    try {
      decode_image(bytes_of(damaged), image);
    } catch (const RunError&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("other formats are named", "[data]") {
  Image image;
  const auto refuse = [&](const std::string& bytes) { decode_image(bytes_of(bytes), image); };
  CHECK_THROWS_WITH(refuse(""), Contains("empty"));
  CHECK_THROWS_WITH(refuse("8BPS..."), Contains("Photoshop") && Contains("JPEG, PNG, GIF"));
  CHECK_THROWS_WITH(refuse(std::string("\0\0\0\x18"
                                       "ftypheic",
                                       12)),
                    Contains("HEIC"));
  CHECK_THROWS_WITH(refuse("P7\nWIDTH 1"), Contains("PAM"));
  CHECK_THROWS_WITH(refuse("hello"), Contains("no image") && Contains("JPEG, PNG, GIF"));
  CHECK_THROWS_WITH(refuse("\xFF\xD8"), Contains("JPEG") && Contains("too early"));
  CHECK_THROWS_WITH(refuse("\x89PNG\r\n\x1A\n"), Contains("broken PNG"));
  CHECK_THROWS_WITH(refuse("GIF89a......"), Contains("broken GIF"));
  CHECK_THROWS_WITH(refuse("RIFF1234WEBPVP8 "), Contains("broken WebP"));
  CHECK_THROWS_WITH(refuse("BM....."), Contains("broken BMP") && Contains("too early"));
  CHECK_THROWS_WITH(refuse(std::string("II*\0....", 8)), Contains("broken TIFF"));
  CHECK_THROWS_WITH(refuse("P6 2 2 255\n123"), Contains("broken PNM") && Contains("too early"));
}

TEST_CASE("photographs decode to Pillow's pixels", "[data][peer]") {
  const fs::path photos = shared_data() / "photos" / "imagenet_sample";
  if (!fs::exists(photos) || !has_python()) {
    WARN("skipped: no ../shared/data/photos or no Python environment");
    return;
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 1; i < files.size(); ++i) {
    if (i % 20 != 0) files[i].clear();
  }
  std::erase(files, "");
  for (const auto& [file, expected] : pillow(files)) {
    INFO(file);
    CHECK((decoded(file) == expected));
  }
}

}  // namespace composer::decode_test
