#include <catch2/catch.hpp>
#include <string>

#include "data/jpeg/header.h"
#include "tests/data/jpeg_encoding.h"

namespace composer::jpeg_header_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("the headers of a JPEG are read without libjpeg", "[data]") {
  const auto bytes = encode(test_image(20, 30), {});
  const JpegHeader header = read_jpeg_header(bytes);
  CHECK(header.size == ImageSize{20, 30});
  CHECK(header.components == 3);
  CHECK(header.precision == 8);
  CHECK(header.baseline);
  CHECK(header.orientation == 1);
  CHECK_FALSE(read_jpeg_header(encode(test_image(20, 30), {.progressive = true})).baseline);
  const JpegCoding gray{.sampling = {{1, 1}}, .space = JCS_GRAYSCALE};
  CHECK(read_jpeg_header(encode(test_image(20, 30), gray)).components == 1);
}

TEST_CASE("the EXIF orientation is found in either byte order", "[data]") {
  const auto plain = encode(test_image(20, 30), {});
  for (const bool little : {true, false}) {
    for (uint8_t orientation = 0; orientation <= 9; ++orientation) {
      Bytes exif = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0};
      const Bytes tiff_little = {'I', 'I', 42, 0, 8, 0,           0, 0, 1, 0, 0x12, 1, 3,
                                 0,   1,   0,  0, 0, orientation, 0, 0, 0, 0, 0,    0, 0};
      const Bytes tiff_big = {'M', 'M', 0, 42, 0, 0, 0,           8, 0, 1, 1, 0x12, 0,
                              3,   0,   0, 0,  1, 0, orientation, 0, 0, 0, 0, 0,    0};
      const Bytes& tiff = little ? tiff_little : tiff_big;
      exif.insert(exif.end(), tiff.begin(), tiff.end());
      Bytes bytes = plain;
      bytes.insert(bytes.begin() + 2, exif.begin(), exif.end());
      const JpegHeader header = read_jpeg_header(bytes);
      const bool sensible = orientation >= 1 && orientation <= 8;
      CHECK(header.orientation == (sensible ? orientation : 1));
      const bool swapped = sensible && orientation >= 5;
      CHECK(header.upright_size() == (swapped ? ImageSize{30, 20} : ImageSize{20, 30}));
    }
  }
}

TEST_CASE("a block of EXIF may have a name before it, and a long orientation", "[data]") {
  Bytes block = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  CHECK(exif_orientation(block) == 6);
  block[12] = 4;
  CHECK(exif_orientation(block) == 6);
  block[20] = 1;  // 65542
  CHECK(exif_orientation(block) == 0);
  block[20] = 0;
  const Bytes name = {'E', 'x', 'i', 'f', 0, 0};
  block.insert(block.begin(), name.begin(), name.end());
  CHECK(exif_orientation(block) == 6);
  for (size_t length = 0; length < block.size(); ++length)
    CHECK_NOTHROW(exif_orientation(std::span(block).first(length)));
}

TEST_CASE("damaged headers of a JPEG are refused with a reason", "[data]") {
  const auto bytes = encode(test_image(20, 30), {});
  const std::string text(bytes.begin(), bytes.end());
  const size_t frame = text.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  const auto with = [&](size_t at, std::initializer_list<int> values) {
    Bytes changed = bytes;
    for (const int value : values) changed[frame + at++] = static_cast<uint8_t>(value);
    return changed;
  };
  CHECK_THROWS_WITH(read_jpeg_header({}), Contains("does not start as JPEG"));
  CHECK_THROWS_WITH(read_jpeg_header(with(5, {0, 0})), Contains("30 x 0 pixels"));
  CHECK_THROWS_WITH(read_jpeg_header(with(7, {0, 0})), Contains("0 x 20 pixels"));
  CHECK_THROWS_WITH(read_jpeg_header(with(5, {255, 255, 255, 255})), Contains("too many"));
  CHECK_THROWS_WITH(read_jpeg_header(with(9, {2})), Contains("2 colour components"));
  CHECK_THROWS_WITH(read_jpeg_header(with(9, {4})), Contains("length"));
  CHECK_THROWS_WITH(read_jpeg_header(with(1, {0xDA})), Contains("no frame header"));
  for (size_t length = 2; length < frame + 19; ++length) {
    CHECK_THROWS_WITH(read_jpeg_header(std::span(bytes).first(length)), Contains("end too early"));
  }
}

}  // namespace composer::jpeg_header_test
