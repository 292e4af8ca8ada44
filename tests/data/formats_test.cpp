#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <regex>
#include <sstream>

#include "data/datasets/image_folder.h"
#include "data/pixels/orient.h"
#include "data/samples/source.h"
#include "tests/data/pillow.h"
#include "tests/data/small_images.h"

namespace composer::formats_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string pixels_of(const std::string& bytes) {
  Image image;
  decode_image(bytes_of(bytes), image);
  return flat(image);
}

std::string small_image(const std::string& name) {
  for (const auto& one : kSmallImages)
    if (name == one.name) return from_hexadecimal(one.hexadecimal);
  FAIL(name);
  return {};
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string sum = type + data;
  return big_endian(static_cast<uint32_t>(data.size())) + sum +
         big_endian(static_cast<uint32_t>(
             crc32(0, reinterpret_cast<const Bytef*>(sum.data()), static_cast<uInt>(sum.size()))));
}

std::string riff_chunk(const std::string& type, const std::string& data) {
  const std::string size = big_endian(static_cast<uint32_t>(data.size()));
  return type + std::string(size.rbegin(), size.rend()) + data + std::string(data.size() % 2, '\0');
}

/// Of a PNG's text.
std::string in_hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char c : bytes)
    for (const int digit : {static_cast<uint8_t>(c) >> 4, c & 15})
      text += "0123456789abcdef"[static_cast<size_t>(digit)];
  return text;
}

}  // namespace

TEST_CASE("the orientation of EXIF is applied to PNG and WebP", "[data]") {
  for (const char orientation : {'\1', '\3', '\6', '\10'}) {
    const std::string block = std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) +
                              orientation + std::string(6, '\0');
    const std::string named = std::string("Exif\0\0", 6) + block;
    const std::string png = small_image("png"), webp = small_image("lossless webp");
    Image upright;
    decode_image(bytes_of(png), upright);
    apply_orientation(upright, orientation);
    const std::string expected = flat(upright);

    const size_t header_end = 33, end = png.size() - 12;
    const auto with = [&](size_t at, const std::string& chunk) {
      return png.substr(0, at) + chunk + png.substr(at);
    };
    const std::string profile = "\nexif\n      32\n" + in_hexadecimal(named) + "\n";
    std::string packed(1000, '\0');
    uLongf size = packed.size();
    REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(profile.data()), profile.size()) == Z_OK);
    packed.resize(size);
    const std::string keyword = std::string("Raw profile type exif") + '\0';
    for (const auto& file :
         {with(header_end, png_chunk("eXIf", block)), with(end, png_chunk("eXIf", named)),
          with(header_end, png_chunk("tEXt", keyword + profile)),
          with(end, png_chunk("zTXt", keyword + '\0' + packed)),
          with(header_end, png_chunk("iTXt", keyword + std::string("\1\0\0\0", 4) + packed))})
      CHECK(pixels_of(file) == expected);

    const std::string canvas("\x08\0\0\0\x06\0\0\x04\0\0", 10);
    for (const auto& exif : {block, named}) {
      const std::string chunks =
          "WEBP" + riff_chunk("VP8X", canvas) + webp.substr(12) + riff_chunk("EXIF", exif);
      CHECK(pixels_of(riff_chunk("RIFF", chunks)) == expected);
    }
  }
}

TEST_CASE("small files of every format", "[data]") {
  std::map<std::string, std::string> pixels;
  for (const auto& [name, hexadecimal] : kSmallImages) {
    INFO(name);
    const std::string bytes = from_hexadecimal(hexadecimal);
    pixels[name] = pixels_of(bytes);
    CHECK_THAT(pixels[name], Catch::StartsWith("5 7\n"));
    Image image;
    for (size_t length = 0; length < bytes.size() - 12; ++length) {
      const std::string cut = bytes.substr(0, length);
      if (std::string(name).find("two frames") == std::string::npos || length < 82) {
        INFO("cut to " << length << " bytes");
        CHECK_THROWS_AS(decode_image(bytes_of(cut), image), RunError);
      }
    }
  }
  std::string expected = "5 7\n";
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x) {
      for (const int value : {x * 36, y * 60, x * y * 9}) expected += static_cast<char>(value);
    }
  }
  CHECK(pixels["png"] == expected);
  CHECK(pixels["lossless webp"] == expected);
  for (const char* exact : {"bmp", "tiff", "tiff of four inks in planes", "tiff of 16 bits",
                            "tiff turned by 90 degrees"}) {
    INFO(exact);
    CHECK(pixels[exact] == expected);
  }
  for (const char* exact :
       {"gif", "bmp with runs", "bmp of 4 bits from the top", "tiff of one tile with a palette"}) {
    INFO(exact);
    CHECK(pixels[exact] == pixels["png with a palette"]);
  }
}

TEST_CASE("every format has small files, and an ending by which folders know its images",
          "[data]") {
  std::string formats = kImageFormats;
  for (char& c : formats) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::istringstream words(std::regex_replace(formats, std::regex(", | and "), " "));
  for (std::string word; words >> word;) {
    INFO(word);
    CHECK(has_image_name("image." + (word == "pnm" ? "ppm" : word)));
    if (word == "jpeg" || word == "pnm") continue;  // made by tests/data/make_jpeg.h, by hand
    CHECK(std::any_of(std::begin(kSmallImages), std::end(kSmallImages), [&](const auto& image) {
      return std::string(image.name).find(word) != std::string::npos;
    }));
  }
}

TEST_CASE("what a BMP or TIFF asks for is checked before memory is", "[data]") {
  const auto with = [](const char* name, size_t place, const std::string& bytes) {
    const auto* image =
        std::find_if(std::begin(kSmallImages), std::end(kSmallImages),
                     [&](const auto& one) { return one.name == std::string(name); });
    return from_hexadecimal(image->hexadecimal).replace(place, bytes.size(), bytes);
  };
  const std::string large = from_hexadecimal("00300000"), larger = from_hexadecimal("ffffff7f");
  const size_t width = 18, height = 22, bits = 28, compression = 30;
  CHECK_THROWS_WITH(pixels_of(with("bmp", width, large)), Contains("too early"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", width, larger)), Contains("too many"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", height, std::string(4, 0))), Contains("without pixels"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", bits, "\5")), Contains("5 bits"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", compression, "\4")), Contains("compression 4"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", 14, "\5")), Contains("header of 5 bytes"));
  CHECK_THROWS_WITH(pixels_of(with("bmp with masks", 54, "\1")), Contains("do not lie together"));
  CHECK_THROWS_WITH(pixels_of(with("bmp with runs", height, large)), Contains("too early"));
  // A row that the runs leave out has colour 0, the first of the palette.
  const auto runs = with("bmp with runs", 0, "");
  const std::string first = runs.substr(54, 3);
  const auto empty = runs.substr(0, 54 + 8 * 4) + std::string("\0\1", 2);
  CHECK(pixels_of(empty).substr(4, 3) == std::string(first.rbegin(), first.rend()));

  const char* planes = "tiff of four inks in planes";
  const size_t first_value = 8 + 2 + 8;  // of the tags, which are 12 bytes each and ascend
  CHECK_THROWS_WITH(pixels_of(with(planes, first_value, large)), Contains("too early"));
  const std::string both = from_hexadecimal(
      "ffff0000"
      "0101030001000000"
      "ffff0000");
  CHECK_THROWS_WITH(pixels_of(with(planes, first_value, both)), Contains("too many"));
  const size_t compression_value = first_value + 3 * 12, photometric_value = first_value + 4 * 12;
  CHECK_THROWS_WITH(pixels_of(with(planes, compression_value, "\6")), Contains("old style"));
  CHECK_THROWS_WITH(pixels_of(with(planes, compression_value, "\xFE")),
                    Contains("compression 254"));
  CHECK_THROWS_WITH(pixels_of(with(planes, photometric_value, "\x08")),
                    Contains("interpretation 8"));
}

TEST_CASE("what a GIF or WebP asks for is checked before memory is", "[data]") {
  Image image;
  const auto decode = [&](const std::string& hexadecimal) {
    decode_image(bytes_of(from_hexadecimal(hexadecimal)), image);
  };
  const auto gif = [](const std::string& canvas, const std::string& frame) {
    return "474946383961" + canvas + "800000" + "000000ffffff" + "2c00000000" + frame + "00" +
           "0202440100" + "3b";
  };
  const std::string large = "ffffaa0a", small = "01000100";  // 65,535 x 2,730 pixels, one
  CHECK_THROWS_WITH(decode(gif(large, small)), Contains("1 x 1 on a canvas of 65535 x 2730"));
  CHECK_THROWS_WITH(decode(gif(large, large)), Contains("too early"));
  CHECK_THROWS_WITH(decode(gif(small, large)), Contains("too early"));
  // The lossless one, of 16,383 x 10,922 pixels.
  CHECK_THROWS_WITH(decode("524946463000000057454250565038"
                           "4c230000002ffe7faa0ab93244f43f7651fce87f4021db08d0c0ce9fec45"
                           "189249880900b602ed0900"),
                    Contains("damaged"));
  CHECK(image.pixels.capacity() == 0);
  decode(gif("e803e803", small));
  CHECK(image.height == 1000);
  CHECK(image.width == 1000);
}

TEST_CASE("memory far above what images take is given back", "[data]") {
  Image image;
  image.resize(4000, 4000, 3);
  image.resize(10, 10, 3);
  CHECK(image.pixels.capacity() == 48'000'000);
  image.resize(5000, 5000, 3);
  image.resize(3000, 3000, 3);
  CHECK(image.pixels.capacity() >= 75'000'000);
  image.resize(10, 10, 3);
  CHECK(image.pixels.capacity() < 1000);

  ReadScratch scratch;
  scratch.image.resize(5000, 5000, 3);
  scratch.give_back({3000, 3000});
  CHECK(scratch.image.pixels.capacity() >= 75'000'000);
  scratch.give_back({10, 10});
  CHECK(scratch.image.pixels.capacity() == 0);
}

TEST_CASE("PNM by hand", "[data]") {
  const std::string white = "\xFF\xFF\xFF", black(3, '\0');
  CHECK(pixels_of("P1 3 1\n1 0#x\n1") == "1 3\n" + black + white + black);
  CHECK(pixels_of("P1\n2 2\n10\n01\n") == "2 2\n" + black + white + white + black);
  CHECK(pixels_of("P4 9 1\n\x80\x80") ==
        "1 9\n" + black + white + white + white + white + white + white + white + black);
  CHECK(pixels_of("P2 1 1 4 2") == "1 1\n\x80\x80\x80");
  CHECK(pixels_of("P3 1 1 255 1 2 3") == "1 1\n\x01\x02\x03");
  CHECK(pixels_of("P5 1 1 65535\n\x80\x01") == "1 1\n\x80\x80\x80");
  CHECK(pixels_of("P6 1 1 255\nabc") == "1 1\nabc");
  CHECK_THROWS_WITH(pixels_of("P6 1 1 255\nab"), Contains("too early"));
  CHECK_THROWS_WITH(pixels_of("P6 0 1 255\n"), Contains("without pixels"));
  CHECK_THROWS_WITH(pixels_of("P6 1 1 70000\nabc"), Contains("65535"));
  CHECK_THROWS_WITH(pixels_of("P6 1 x 255\nabc"), Contains("number"));
  CHECK_THROWS_WITH(pixels_of("P6 100000 100000 255\nabc"), Contains("too many"));
  CHECK_THROWS_WITH(pixels_of("P1 2 1 12"), Contains("bit"));
}

}  // namespace composer::formats_test
