#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/transcode.h"
#include "data/pixels/orient.h"
#include "tests/data/make_jpeg.h"

namespace composer::jpeg_transcode_test {

using namespace composer::test;

namespace {

using Bytes = std::vector<uint8_t>;

Image decoded(std::span<const uint8_t> bytes) {
  Image image;
  decode_jpeg(bytes, image);
  image.pixels.resize(static_cast<size_t>(image.height * image.width * 3));
  return image;
}

bool same(const Image& a, const Image& b) {
  return a.height == b.height && a.width == b.width && a.pixels == b.pixels;
}

double mean_difference(const Image& a, const Image& b) {
  REQUIRE(a.height == b.height);
  REQUIRE(a.width == b.width);
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
  return sum / static_cast<double>(a.pixels.size());
}

Image upright(const Image& image, int orientation) {
  Image out;
  orient(image.view(), orientation, out);
  out.pixels.resize(image.pixels.size());
  return out;
}

int inverse(int orientation) { return orientation == 6 ? 8 : orientation == 8 ? 6 : orientation; }

}  // namespace

TEST_CASE("streams of other kinds become baseline with the same pixels", "[data]") {
  for (const bool gray : {false, true}) {
    const Image picture = make_picture(75, 53, gray ? 1 : 3);
    std::vector<JpegKind> kinds(6);
    kinds[0].progressive = true;
    kinds[1].arithmetic = true;
    kinds[2].interleaved = false;
    kinds[3].restart_interval = 3;
    kinds[4].progressive = true, kinds[4].h_samp = kinds[4].v_samp = 1;
    kinds[5].progressive = kinds[5].arithmetic = true, kinds[5].v_samp = 1;
    for (JpegKind kind : kinds) {
      if (gray) kind.coded = JCS_GRAYSCALE;
      const Bytes before = make_jpeg(picture, kind);
      const auto after = transcode_jpeg(before, 1);
      REQUIRE(after);
      CHECK(read_jpeg_header(*after).baseline);
      CHECK(same(decoded(*after), decoded(before)));
    }
  }
}

TEST_CASE("colours that are coded as RGB stay what they were", "[data]") {
  const Bytes before = make_jpeg(make_picture(40, 48),
                                 {.h_samp = 1, .v_samp = 1, .coded = JCS_RGB, .progressive = true});
  const auto after = transcode_jpeg(before, 1);
  REQUIRE(after);
  CHECK(same(decoded(*after), decoded(before)));
}

TEST_CASE("each orientation is applied to the coefficients without loss", "[data]") {
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    const Bytes before = make_jpeg(make_picture(64, 96), {.h_samp = h, .v_samp = v});
    const Image stored = decoded(before);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      INFO("sampling " << h << "x" << v << ", orientation " << orientation);
      const auto turned = transcode_jpeg(before, orientation);
      REQUIRE(turned);
      CHECK(read_jpeg_header(*turned).orientation == 1);
      CHECK(mean_difference(decoded(*turned), upright(stored, orientation)) < 0.5);
      const auto back = transcode_jpeg(*turned, inverse(orientation));
      REQUIRE(back);
      CHECK(same(decoded(*back), stored));
    }
  }
}

TEST_CASE("sides that are no whole number of blocks are mirrored by nobody", "[data]") {
  // 4:2:0: blocks of 16 x 16.
  const Bytes wide = make_jpeg(make_picture(48, 50));
  const Bytes high = make_jpeg(make_picture(50, 48));
  for (const int orientation : {2, 3, 7, 8}) CHECK_FALSE(transcode_jpeg(wide, orientation));
  for (const int orientation : {3, 4, 6, 7}) CHECK_FALSE(transcode_jpeg(high, orientation));
  for (const int orientation : {4, 5, 6}) {
    const auto turned = transcode_jpeg(wide, orientation);
    REQUIRE(turned);
    CHECK(mean_difference(decoded(*turned), upright(decoded(wide), orientation)) < 0.5);
  }
  for (const int orientation : {2, 5, 8}) {
    const auto turned = transcode_jpeg(high, orientation);
    REQUIRE(turned);
    CHECK(mean_difference(decoded(*turned), upright(decoded(high), orientation)) < 0.5);
  }
}

TEST_CASE("inks, damage and missing scans are left to the decoder", "[data]") {
  CHECK_FALSE(transcode_jpeg(
      make_jpeg(make_picture(32, 32, 4), {.h_samp = 1, .v_samp = 1, .coded = JCS_YCCK}), 1));
  const Bytes whole = make_jpeg(make_picture(64, 64), {.progressive = true});
  REQUIRE(transcode_jpeg(whole, 1));
  for (size_t length = 0; length + 2 < whole.size(); length += 97) {
    CHECK_FALSE(transcode_jpeg(std::span(whole).first(length), 1));
  }
  // Without its last scan, and the end marker in its place: decoders smooth such an image.
  const Bytes mark{0xFF, 0xDA};
  auto last = std::find_end(whole.begin(), whole.end(), mark.begin(), mark.end());
  Bytes unfinished(whole.begin(), last);
  unfinished.insert(unfinished.end(), {0xFF, 0xD9});
  CHECK_NOTHROW(decoded(unfinished));
  CHECK_FALSE(transcode_jpeg(unfinished, 1));
}

TEST_CASE("a damaged byte anywhere never crashes the transcoder", "[data]") {
  const Bytes whole = make_jpeg(make_picture(48, 32), {.progressive = true});
  int done = 0;
  for (size_t at = 2; at < whole.size(); ++at) {
    Bytes damaged = whole;
    damaged[at] = static_cast<uint8_t>(damaged[at] ^ (at % 2 == 0 ? 0xFF : 0x10));
    done += transcode_jpeg(damaged, 1 + static_cast<int>(at % 8)) ? 1 : 0;
  }
  CHECK(done > 0);
}

TEST_CASE("what follows the first image is cut off", "[data]") {
  const Bytes inner = make_jpeg(make_picture(16, 16));
  JpegKind kind{.restart_interval = 2};
  for (const bool progressive : {false, true}) {
    kind.progressive = progressive;
    Bytes one = make_jpeg(make_picture(90, 70), kind);
    // A segment with a whole image in it, as EXIF's thumbnails are.
    Bytes thumbnail{0xFF, 0xE1, static_cast<uint8_t>((inner.size() + 2) >> 8),
                    static_cast<uint8_t>(inner.size() + 2)};
    thumbnail.insert(thumbnail.end(), inner.begin(), inner.end());
    one.insert(one.begin() + 2, thumbnail.begin(), thumbnail.end());
    Bytes many = one;
    many.insert(many.end(), inner.begin(), inner.end());
    CHECK(first_jpeg(many).size() == one.size());
    CHECK(first_jpeg(one).size() == one.size());
    CHECK(has_one_whole_scan(one) == !progressive);
    CHECK_FALSE(has_one_whole_scan(many));
    Bytes middle = one;
    middle[one.size() - 20] = 0xFF, middle[one.size() - 19] = 0xD9;
    CHECK_FALSE(has_one_whole_scan(middle));
    const auto cut = std::span(one).first(one.size() - 2);
    CHECK(first_jpeg(cut).size() == cut.size());
    CHECK_FALSE(has_one_whole_scan(cut));
  }
}

}  // namespace composer::jpeg_transcode_test
