#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "base/error.h"
#include "data/jpeg/bits_simd.h"
#include "data/jpeg/codec.h"
#include "data/jpeg/decoder.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/scan.h"
#include "tests/data/jpeg_encoding.h"
#include "tests/data/kept_in_memory.h"
#include "tests/each_target.h"
#include "tests/files.h"

namespace composer::jpeg_decoder_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<uint8_t>;

const std::vector<JpegCoding>& indexable() {
  static const std::vector<JpegCoding> codings = {
      {},
      {.name = "4:4:4", .sampling = {{1, 1}, {1, 1}, {1, 1}}},
      {.name = "4:2:2", .sampling = {{2, 1}, {1, 1}, {1, 1}}},
      {.name = "4:4:0", .sampling = {{1, 2}, {1, 1}, {1, 1}}},
      {.name = "4:1:1", .sampling = {{4, 1}, {1, 1}, {1, 1}}},
      {.name = "4:1:0", .sampling = {{4, 2}, {1, 1}, {1, 1}}},
      {.name = "chroma finer than luma", .sampling = {{1, 1}, {2, 2}, {1, 2}}},
      {.name = "grayscale", .sampling = {{1, 1}}, .space = JCS_GRAYSCALE},
      {.name = "grayscale 2x2", .sampling = {{2, 2}}, .space = JCS_GRAYSCALE},
      {.name = "RGB", .sampling = {{1, 1}, {1, 1}, {1, 1}}, .space = JCS_RGB},
      {.name = "optimised", .optimised = true},
      {.name = "quality 30", .quality = 30},
      {.name = "quality 100", .quality = 100, .optimised = true},
      {.name = "quality 100 4:4:4", .sampling = {{1, 1}, {1, 1}, {1, 1}}, .quality = 100},
  };
  return codings;
}

const std::vector<JpegCoding>& others() {
  static const std::vector<JpegCoding> codings = {
      {.name = "progressive", .progressive = true},
      {.name = "arithmetic", .arithmetic = true},
      {.name = "restart each row", .restart_rows = 1},
      {.name = "restart each third MCU", .restart_mcus = 3},
      {.name = "three scans", .separate_scans = true},
      {.name = "restart 4:4:4", .sampling = {{1, 1}, {1, 1}, {1, 1}}, .restart_rows = 2},
      {.name = "restart 4:4:0", .sampling = {{1, 2}, {1, 1}, {1, 1}}, .restart_rows = 2},
      {.name = "restart 4:2:2", .sampling = {{2, 1}, {1, 1}, {1, 1}}, .restart_rows = 1},
  };
  return codings;
}

bool equal_part(const ImagePart& part, const Image& whole) {
  if (part.whole != ImageSize{whole.height, whole.width}) return false;
  const Box& box = part.box;
  if (part.pixels.height != box.height || part.pixels.width != box.width) return false;
  for (int64_t y = 0; y < box.height; ++y) {
    const uint8_t* expected = whole.view().row(box.top + y) + 3 * box.left;
    if (!std::equal(expected, expected + 3 * box.width, part.pixels.row(y))) return false;
  }
  return true;
}

/// Sometimes of one pixel, sometimes at an edge, sometimes all.
Box random_box(Random& random, ImageSize size) {
  const auto side = [&](int64_t all, int64_t& first, int64_t& length) {
    length =
        random.below(4) == 0 ? 1 + random.below(std::min<int64_t>(all, 3)) : 1 + random.below(all);
    first = random.below(all - length + 1);
    const int64_t edge = random.below(8);
    if (edge == 0) first = 0;
    if (edge == 1) first = all - length;
  };
  Box box;
  side(size.height, box.top, box.height);
  side(size.width, box.left, box.width);
  return box;
}

bool covers(const Box& box, const Box& region, int64_t scale) {
  return box.top * scale <= region.top && box.left * scale <= region.left &&
         (box.top + box.height) * scale >= region.top + region.height &&
         (box.left + box.width) * scale >= region.left + region.width &&
         (scale != 1 || box == region);
}

/// The stream without its Huffman codes.
Bytes without_codes(Bytes bytes) {
  JpegScan scan;
  REQUIRE(scan.parse(bytes));
  std::fill(bytes.end() - static_cast<ptrdiff_t>(scan.codes.size()), bytes.end(), uint8_t{0});
  return bytes;
}

/// The same with coefficients that are kept.
void check_kept(JpegDecoder& decoder, const Bytes& bytes, const Bytes& index, const Image& whole,
                const JpegRequest& request) {
  KeptInMemory kept;
  CHECK(equal_part(decoder.decode(bytes, request, index, nullptr, nullptr, &kept), whole));
  CHECK(kept.take() != index.empty());
  if (index.empty()) return;
  const Bytes header = without_codes(bytes);
  CHECK(equal_part(decoder.decode(header, request, {}, nullptr, nullptr, &kept), whole));
  CHECK_FALSE(kept.made);
}

/// Decodes the region on every way and compares with the whole image.
void check_region(JpegDecoder& decoder, const Bytes& bytes, const Bytes& index, const Image& whole,
                  const JpegRequest& request) {
  const Box& r = request.region;
  INFO("region " << r.top << ' ' << r.left << ' ' << r.height << 'x' << r.width << " scale "
                 << request.scale << (request.dct == Dct::fast ? " fast" : " accurate"));
  Image own;
  const auto region = decode_jpeg_region(bytes, &request, own, nullptr);
  CHECK(covers(region.box, r, request.scale));
  CHECK(equal_part(region, whole));
  const auto walked = decoder.decode(bytes, request);
  CHECK(walked.box == region.box);
  CHECK(equal_part(walked, whole));
  Bytes recorded = {1, 2, 3};
  CHECK(equal_part(decoder.decode(bytes, request, {}, &recorded), whole));
  CHECK((recorded == index));
  const auto indexed = decoder.decode(bytes, request, index);
  CHECK(indexed.box == region.box);
  CHECK(equal_part(indexed, whole));
  check_kept(decoder, bytes, index, whole, request);
}

void check_regions(JpegDecoder& decoder, const Bytes& bytes, uint64_t seed, int count) {
  const Bytes index = make_jpeg_index(bytes);
  const ImageSize size = read_jpeg_header(bytes).size;
  Random random(seed, "regions", 0, 0);
  for (const Dct dct : {Dct::accurate, Dct::fast}) {
    for (const int scale : {1, 2, 4, 8}) {
      const Image whole = decode_whole(bytes, scale, dct);
      const int here = scale == 1 ? count : (count + 3) / 4;
      for (int i = 0; i < here; ++i) {
        check_region(decoder, bytes, index, whole, {random_box(random, size), scale, dct});
      }
    }
  }
}

const std::vector<ImageSize>& sizes() {
  static const std::vector<ImageSize> all = {{1, 1},   {3, 2},    {8, 8},    {16, 16}, {17, 33},
                                             {5, 70},  {70, 5},   {64, 64},  {65, 63}, {47, 120},
                                             {99, 34}, {100, 97}, {33, 129}, {130, 66}};
  return all;
}

void check_codings(const std::vector<JpegCoding>& codings, bool with_index, int count) {
  JpegDecoder decoder;
  for (const auto& coding : codings) {
    for (const auto& size : sizes()) {
      INFO(coding.name << ' ' << size.width << " x " << size.height);
      const auto bytes = encode(test_image(size.height, size.width), coding);
      CHECK(make_jpeg_index(bytes).empty() != with_index);
      check_regions(decoder, bytes, static_cast<uint64_t>(size.width), count);
    }
  }
}

std::vector<std::string> photographs() {
  std::vector<std::string> files;
  for (const char* folder : {"imagenet_sample", "tiny_imagenet_10"}) {
    const fs::path path = shared_data() / "photos" / folder;
    if (!fs::exists(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes read(const std::string& path) {
  const std::string text = read_bytes(path);
  return {text.begin(), text.end()};
}

/// On every `step`th photograph; only at full size, which training uses.
void check_photographs(size_t step, int count) {
  const auto files = photographs();
  if (files.empty()) {
    WARN("skipped: no ../shared/data/photos");
    return;
  }
  JpegDecoder decoder;
  for (size_t i = 0; i < files.size(); i += step) {
    INFO(files[i]);
    const Bytes bytes = read(files[i]);
    if (bytes[0] != 0xFF || read_jpeg_header(bytes).components == 4) continue;
    const Bytes index = make_jpeg_index(bytes);
    const ImageSize size = read_jpeg_header(bytes).size;
    Random random(i, "regions", 0, 0);
    for (const Dct dct : {Dct::accurate, Dct::fast}) {
      const Image whole = decode_whole(bytes, 1, dct);
      for (int crop = 0; crop < count; ++crop) {
        check_region(decoder, bytes, index, whole, {random_box(random, size), 1, dct});
      }
    }
  }
}

/// What decoding ends in, in a form that compares.
struct Outcome {
  std::string error, warnings;
  Bytes pixels;
  bool operator==(const Outcome&) const = default;
};

template <class Decode>
Outcome outcome(Decode decode) {
  Outcome result;
  try {
    const ImageView view = decode(result.warnings);
    for (int64_t y = 0; y < view.height; ++y) {
      result.pixels.insert(result.pixels.end(), view.row(y), view.row(y) + 3 * view.width);
    }
  } catch (const RunError& error) {
    result = {error.what(), "", {}};
  }
  return result;
}

Outcome whole_outcome(const Bytes& bytes) {
  return outcome([&, image = Image()](std::string& warnings) mutable {
    decode_jpeg(bytes, image, &warnings);
    return image.view();
  });
}

Outcome part_outcome(JpegDecoder& decoder, const Bytes& bytes, const Box& region,
                     const Bytes& index = {}, Bytes* recorded = nullptr) {
  return outcome([&](std::string& warnings) {
    return decoder.decode(bytes, {region}, index, recorded, &warnings).pixels;
  });
}

}  // namespace

TEST_CASE("this libjpeg takes coefficients from us", "[data]") { CHECK(jpeg_index_works()); }

TEST_CASE("any region of an indexable JPEG equals that of the whole image", "[data]") {
  check_codings(indexable(), true, 4);
}

TEST_CASE("any region of other JPEGs equals that of the whole image", "[data]") {
  check_codings(others(), false, 4);
}

TEST_CASE("every region of small images equals that of the whole image", "[data]") {
  JpegDecoder decoder;
  for (const auto& coding : indexable()) {
    const ImageSize size{35, 37};
    const auto bytes = encode(test_image(size.height, size.width), coding);
    const Bytes index = make_jpeg_index(bytes);
    const Image whole = decode_whole(bytes, 1, Dct::accurate);
    for (int64_t left = 0; left < size.width; ++left) {
      for (int64_t width = 1; left + width <= size.width; width += 1 + width / 3) {
        INFO(coding.name);
        const Box box{left * size.height / size.width, left,
                      std::min(width, size.height - left * size.height / size.width), width};
        check_region(decoder, bytes, index, whole, {box});
      }
    }
  }
}

TEST_CASE("any region of a JPEG, many times", "[.long]") {
  check_codings(indexable(), true, 60);
  check_codings(others(), false, 60);
}

TEST_CASE("CMYK regions equal those of the whole image", "[data]") {
  JpegDecoder decoder;
  for (const auto space : {JCS_CMYK, JCS_YCCK}) {
    const auto bytes = encode(test_image(61, 83), {.sampling = {{2, 2}}, .space = space});
    Image whole;
    decode_jpeg(bytes, whole);
    Random random(1, "regions", 0, 0);
    for (int i = 0; i < 40; ++i) {
      check_region(decoder, bytes, {}, whole, {random_box(random, {61, 83})});
    }
  }
}

TEST_CASE("regions of photographs equal those of the whole image", "[data]") {
  check_photographs(10, 1);
}

TEST_CASE("50 regions of every photograph equal those of the whole image", "[.long]") {
  check_photographs(1, 25);  // each with both DCTs
}

TEST_CASE("odd files decode by regions as they do whole, or are refused", "[data]") {
  const fs::path odd = shared_data() / "odd";
  if (!fs::exists(odd)) {
    WARN("skipped: no ../shared/data/odd");
    return;
  }
  JpegDecoder decoder;
  for (const auto& entry : fs::directory_iterator(odd)) {
    const Bytes bytes = read(entry.path().string());
    if (bytes.size() < 2 || bytes[0] != 0xFF || bytes[1] != 0xD8) continue;
    INFO(entry.path().string());
    Image whole;
    Bytes recorded;
    try {
      decode_jpeg(bytes, whole);
    } catch (const RunError&) {
      CHECK_THROWS_AS(decoder.decode(bytes, {{0, 0, 1, 1}}), RunError);
      CHECK_THROWS_AS(decoder.decode(bytes, {{0, 0, 1, 1}}, {}, &recorded), RunError);
      CHECK(recorded.empty());
      CHECK(make_jpeg_index(bytes).empty());
      continue;
    }
    const Bytes index = make_jpeg_index(bytes);
    Random random(1, "regions", 0, 0);
    const int count = whole.height * whole.width > 4'000'000 ? 1 : 6;
    for (int i = 0; i < count; ++i) {
      check_region(decoder, bytes, index, whole, {random_box(random, {whole.height, whole.width})});
    }
  }
}

TEST_CASE("a JPEG cut anywhere is refused for every region as it is whole", "[data]") {
  JpegDecoder decoder;
  for (const auto* codings : {&indexable(), &others()}) {
    for (const auto& coding : *codings) {
      const auto bytes = encode(test_image(40, 52), coding);
      for (size_t length = 0; length <= bytes.size(); length += 1 + length / 40) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
        INFO(coding.name << " cut to " << length << " of " << bytes.size());
        const bool refused = !whole_outcome(cut).error.empty();
        for (const Box& box : {Box{0, 0, 1, 1}, Box{0, 0, 40, 52}, Box{20, 9, 11, 12}}) {
          Bytes recorded;
          CHECK(part_outcome(decoder, cut, box).error.empty() != refused);
          CHECK(part_outcome(decoder, cut, box, {}, &recorded).error.empty() != refused);
          if (refused) CHECK(recorded.empty());
        }
      }
    }
  }
}

TEST_CASE("a damaged JPEG is refused for every region or for none", "[data]") {
  JpegDecoder decoder;
  auto codings = others();
  codings.insert(codings.end(), indexable().begin(), indexable().begin() + 2);
  size_t refused = 0, all = 0;
  for (const auto& coding : codings) {
    const auto bytes = encode(test_image(64, 52), coding);
    const auto scan = std::ranges::search(bytes, Bytes{0xFF, 0xDA}).begin() - bytes.begin();
    for (size_t at = static_cast<size_t>(scan) + 14; at + 2 < bytes.size(); at += 59) {
      Bytes damaged = bytes;
      damaged[at] ^= 0x55;
      if (at % 2 == 0) damaged[at] = 0xFF, damaged[at + 1] = 0xD9;  // an end before the end
      INFO(coding.name << ", byte " << at);
      const bool bad = !whole_outcome(damaged).error.empty();
      ++all, refused += bad;
      for (const Box& box : {Box{0, 0, 9, 9}, Box{20, 30, 11, 12}, Box{55, 0, 9, 52}}) {
        Bytes recorded;
        CHECK(part_outcome(decoder, damaged, box).error.empty() != bad);
        CHECK(part_outcome(decoder, damaged, box, {}, &recorded).error.empty() != bad);
        CHECK(part_outcome(decoder, damaged, box, recorded).error.empty() != bad);
        if (bad) CHECK(recorded.empty());
      }
    }
  }
  CHECK(refused > all / 10);
  CHECK(refused < all);
}

TEST_CASE("a JPEG damaged anywhere ends as libjpeg alone would end", "[data]") {
  JpegDecoder decoder;
  for (const bool optimised : {false, true}) {
    const auto bytes = encode(test_image(40, 52), {.quality = 70, .optimised = optimised});
    for (size_t at = 2; at < bytes.size(); ++at) {
      Bytes damaged = bytes;
      damaged[at] ^= at % 2 == 0 ? 0xFF : 0x10;
      INFO("byte " << at);
      const Outcome expected = whole_outcome(damaged);
      Bytes recorded;
      // Damaged headers may change the size.
      const auto found = outcome([&](std::string& warnings) {
        const ImageSize size = read_jpeg_header(damaged).size;
        const JpegRequest all{{0, 0, size.height, size.width}};
        return decoder.decode(damaged, all, {}, &recorded, &warnings).pixels;
      });
      CHECK(found.error.empty() == expected.error.empty());
      if (expected.error.empty()) CHECK((found == expected));
    }
  }
}

TEST_CASE("a wrong index costs time, an error or pixels, and nothing else", "[data]") {
  JpegDecoder decoder;
  Random random(3, "hostile", 0, 0);
  for (const auto& coding : indexable()) {
    const auto bytes = encode(test_image(70, 90), coding);
    const Bytes index = make_jpeg_index(bytes);
    const Bytes other = make_jpeg_index(encode(test_image(70, 90, 1), coding));
    const auto decode = [&](const Bytes& wrong) {
      return part_outcome(decoder, bytes, random_box(random, {70, 90}), wrong);
    };
    decode(other);
    for (size_t length = 0; length < index.size(); ++length) {
      decode({index.begin(), index.begin() + static_cast<ptrdiff_t>(length)});
    }
    for (size_t bit = 0; bit < 8 * index.size(); ++bit) {
      Bytes wrong = index;
      wrong[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      decode(wrong);
    }
    for (int i = 0; i < 200; ++i) {
      Bytes wrong = index;
      const size_t first = i % 2 == 0 ? 0 : 16;
      for (size_t at = first; at < wrong.size(); ++at) {
        wrong[at] = static_cast<uint8_t>(random.bits());
      }
      decode(wrong);
    }
  }
}

TEST_CASE("the index is used: another predictor gives other pixels", "[data]") {
  JpegDecoder decoder;
  const auto bytes = encode(test_image(70, 90), {});
  Bytes index = make_jpeg_index(bytes);
  const Box box{20, 20, 30, 30};
  const auto right = part_outcome(decoder, bytes, box, index);
  index[16 + 8 + 4] ^= 0x10;  // of the second row
  const auto wrong = part_outcome(decoder, bytes, box, index);
  CHECK(wrong.error.empty());
  CHECK((wrong.pixels != right.pixels));
}

TEST_CASE("a region outside the image is refused", "[data]") {
  JpegDecoder decoder;
  const auto bytes = encode(test_image(20, 30), {});
  for (const Box& box : {Box{0, 0, 21, 1}, Box{0, 0, 1, 31}, Box{-1, 0, 2, 2}, Box{3, 3, 0, 4}}) {
    CHECK_THROWS_WITH(decoder.decode(bytes, {box}), Contains("outside"));
  }
}

TEST_CASE("scalar and SIMD code of the JPEG decoder do the same", "[data]") {
  Random random(5, "unstuff", 0, 0);
  for (int round = 0; round < 300; ++round) {
    Bytes in(static_cast<size_t>(random.below(200)));
    for (auto& byte : in) {
      const auto kind = random.below(12);
      byte = kind == 0 ? 0xFF : kind == 1 ? 0 : static_cast<uint8_t>(random.bits());
      if (kind == 2 && &byte != in.data() && *(&byte - 1) == 0xFF) byte = 0;
    }
    const auto unstuffed = [&](int64_t target, std::vector<uint32_t>& removed, Unstuffed& got) {
      const OnlyTarget only(target);
      Bytes out(in.size() + 32);
      got = unstuff(in, out.data(), &removed);
      out.resize(got.written);
      return out;
    };
    std::vector<uint32_t> plain_removed;
    Unstuffed plain;
    const Bytes expected = unstuffed(targets().back(), plain_removed, plain);
    for (const int64_t target : targets()) {
      std::vector<uint32_t> removed;
      Unstuffed got;
      CHECK((unstuffed(target, removed, got) == expected));
      CHECK(got.read == plain.read);
      CHECK((removed == plain_removed));
    }
  }
  JpegDecoder decoder;
  for (const int64_t target : targets()) {
    const OnlyTarget only(target);
    for (const auto& coding : indexable()) {
      check_regions(decoder, encode(test_image(50, 77), coding), 1, 4);
    }
  }
}

TEST_CASE("coefficients that no image has give libjpeg's pixels", "[data]") {
  auto bytes = encode(test_image(70, 90), {.quality = 100});
  for (size_t at = 0; at + 69 < bytes.size(); ++at) {  // two tables of 8 bits, in a segment each
    if (bytes[at] != 0xFF || bytes[at + 1] != 0xDB) continue;
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at) + 5, 64, uint8_t{255});
  }
  const auto codes = std::ranges::search(bytes, Bytes{0xFF, 0xDA}).begin() - bytes.begin() + 14;
  JpegDecoder decoder;
  Random random(11, "damage", 0, 0);
  size_t compared = 0;
  for (int round = 0; round < 60; ++round) {
    Bytes damaged = bytes;
    for (int i = 0; i < round % 4; ++i) {
      const auto rest = static_cast<int64_t>(bytes.size()) - codes - 2;
      damaged[static_cast<size_t>(codes + random.below(rest))] ^= 1 << random.below(8);
    }
    const Outcome expected = whole_outcome(damaged);
    if (!expected.error.empty()) continue;
    for (const int64_t target : targets()) {
      const OnlyTarget only(target);
      CHECK((part_outcome(decoder, damaged, {0, 0, 70, 90}) == expected));
      ++compared;
    }
  }
  CHECK(compared > targets().size());
}

}  // namespace composer::jpeg_decoder_test
