// The code that coefficients are kept in, and its reader.
#include <algorithm>
#include <catch2/catch.hpp>

#include "data/jpeg/coefficients_simd.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/kept_rows.h"
#include "tests/data/jpeg_encoding.h"
#include "tests/data/kept_in_memory.h"
#include "tests/each_target.h"

namespace composer::kept_coefficients_test {

using namespace composer::test;

namespace {

using Bytes = std::vector<uint8_t>;
using Blocks = std::vector<int16_t>;

/// share: of the coefficients, those that are not 0. largest: of their sizes.
Blocks random_blocks(Random& random, size_t count, double share, int64_t largest) {
  Blocks blocks(64 * count);
  for (auto& one : blocks) {
    if (random.uniform() < share)
      one = static_cast<int16_t>(random.below(2 * largest + 1) - largest);
  }
  return blocks;
}

std::vector<Blocks> rows_of_blocks() {
  Random random(1, "blocks", 0, 0);
  std::vector<Blocks> rows;
  for (const size_t count : {1u, 6u, 37u}) {
    for (const double share : {0.0, 0.02, 0.3, 1.0}) {
      for (const int64_t largest : {1, 127, 200, 32767})
        rows.push_back(random_blocks(random, count, share, largest));
    }
  }
  for (const int16_t value : {-32768, -129, -128, -1, 127, 128, 255, 256, 32767}) {
    rows.emplace_back(64, value);
    for (const size_t place : {0u, 1u, 7u, 8u, 62u, 63u}) {
      rows.emplace_back(128, int16_t{0});
      rows.back()[64 + place] = value;
    }
  }
  return rows;
}

Bytes packed(const Blocks& blocks) {
  const size_t count = blocks.size() / 64;
  Bytes row(packed_room(count));
  row.resize(coefficient_kernels().pack(blocks.data(), count, row.data()));
  return row;
}

/// Behind the row lie bytes that nothing may come of.
bool unpacked(const Bytes& row, size_t blocks, size_t first, size_t count, Blocks& out) {
  Bytes memory = row;
  memory.insert(memory.end(), kUnpackMargin, 0xA5);
  out.assign(64 * count, 7);
  return coefficient_kernels().unpack({memory.data(), row.size()}, blocks, first, count,
                                      out.data());
}

Bytes random_bytes(Random& random, size_t size) {
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random.bits());
  return bytes;
}

uint64_t checksum_on(int64_t target, const Bytes& bytes) {
  const OnlyTarget only(target);
  return coefficient_kernels().checksum(bytes);
}

Bytes pixels_of(const ImagePart& part) {
  Bytes bytes;
  for (int64_t y = 0; y < part.pixels.height; ++y)
    bytes.insert(bytes.end(), part.pixels.row(y), part.pixels.row(y) + 3 * part.pixels.width);
  return bytes;
}

}  // namespace

TEST_CASE("packed coefficients are the same on every processor, and come back", "[data]") {
  for (const Blocks& blocks : rows_of_blocks()) {
    const size_t count = blocks.size() / 64;
    Bytes expected;
    {
      const OnlyTarget plain(targets().back());
      expected = packed(blocks);
    }
    for (const int64_t target : targets()) {
      const OnlyTarget only(target);
      CHECK((packed(blocks) == expected));
      for (size_t first = 0; first < count; first += 1 + count / 3) {
        for (size_t some = 1; first + some <= count; some += 1 + count / 4) {
          Blocks out;
          REQUIRE(unpacked(expected, count, first, some, out));
          const auto begin = blocks.begin() + static_cast<ptrdiff_t>(64 * first);
          CHECK(std::equal(out.begin(), out.end(), begin));
        }
      }
    }
  }
}

TEST_CASE("a row that is too short for its blocks is refused", "[data]") {
  Random random(2, "blocks", 0, 0);
  for (const int64_t largest : {100, 1000}) {
    const Bytes row = packed(random_blocks(random, 9, 0.5, largest));
    for (const int64_t target : targets()) {
      const OnlyTarget only(target);
      Blocks out;
      for (size_t size = 0; size < row.size(); ++size) {
        const Bytes cut(row.begin(), row.begin() + static_cast<ptrdiff_t>(size));
        CHECK_FALSE(unpacked(cut, 9, 0, 9, out));
      }
    }
  }
}

TEST_CASE("any bytes as a row are read within their margin", "[data]") {
  Random random(3, "blocks", 0, 0);
  for (int round = 0; round < 300; ++round) {
    const auto blocks = static_cast<size_t>(1 + random.below(12));
    const auto first = static_cast<size_t>(random.below(static_cast<int64_t>(blocks)));
    const Bytes row = random_bytes(random, 10 * blocks + static_cast<size_t>(random.below(900)));
    for (const int64_t target : targets()) {
      const OnlyTarget only(target);
      Blocks out;
      unpacked(row, blocks, first, blocks - first, out);
    }
  }
}

TEST_CASE("the checksum of rows tells every changed bit, and knows no processor", "[data]") {
  Random random(4, "checksum", 0, 0);
  for (const size_t size : {0u, 1u, 8u, 63u, 64u, 65u, 300u}) {
    Bytes bytes = random_bytes(random, size);
    const uint64_t expected = checksum_on(targets().back(), bytes);
    for (const int64_t target : targets()) CHECK(checksum_on(target, bytes) == expected);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      CHECK(checksum_on(targets().front(), bytes) != expected);
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
    bytes.push_back(0);
    CHECK(checksum_on(targets().front(), bytes) != expected);
  }
  Bytes stripes = random_bytes(random, 256);
  const uint64_t before = checksum_on(targets().front(), stripes);
  std::rotate(stripes.begin(), stripes.begin() + 64, stripes.end());
  CHECK(checksum_on(targets().front(), stripes) != before);
}

TEST_CASE("coefficients that are damaged or another stream's change no pixel", "[data]") {
  JpegDecoder decoder;
  for (const bool full : {false, true}) {
    const JpegCoding coding =
        full ? JpegCoding{.sampling = {{1, 1}, {1, 1}, {1, 1}}, .quality = 100} : JpegCoding{};
    const Bytes bytes = encode(test_image(70, 90), coding);
    const JpegRequest request{{20, 20, 30, 40}};
    const Bytes expected = pixels_of(decoder.decode(bytes, request));
    KeptInMemory kept;
    decoder.decode(bytes, request, {}, nullptr, nullptr, &kept);
    REQUIRE(kept.take());
    const Bytes table = kept.own_table, rows = kept.own_rows;
    const auto check = [&] {
      kept.table = kept.own_table;
      CHECK((pixels_of(decoder.decode(bytes, request, {}, nullptr, nullptr, &kept)) == expected));
      if (kept.made) {
        CHECK((kept.made_table == table));
        CHECK(std::ranges::equal(kept.made_rows, rows));
      }
      kept.own_table = table, kept.own_rows = rows;
    };
    check();
    CHECK_FALSE(kept.made);
    for (size_t at = 0; at < table.size(); ++at) {
      kept.own_table[at] ^= 0x11;
      check();
      kept.own_table.resize(at);
      check();
    }
    for (size_t at = 0; at < rows.size(); at += 1 + rows.size() / 200) {
      kept.own_rows[at] ^= 0x40;
      check();
      kept.own_rows.resize(at);
      check();
    }
    JpegDecoder another;
    KeptInMemory other;
    another.decode(encode(test_image(70, 91), coding), request, {}, nullptr, nullptr, &other);
    REQUIRE(other.take());
    kept.own_table = other.own_table, kept.own_rows = other.own_rows;
    check();
    CHECK(kept.made);
  }
}

TEST_CASE("coefficients are made on every way to them, and of sound streams alone", "[data]") {
  JpegDecoder decoder;
  const Bytes bytes = encode(test_image(70, 90), {}), index = make_jpeg_index(bytes);
  const JpegRequest request{{20, 20, 30, 40}};
  KeptInMemory kept;
  Bytes recorded;
  decoder.decode(bytes, request, {}, &recorded, nullptr, &kept);
  CHECK((recorded == index));
  CHECK(decoder.has_recorded());
  REQUIRE(kept.take());
  kept.table = {};
  decoder.decode(bytes, request, index, &recorded, nullptr, &kept);
  CHECK_FALSE(decoder.has_recorded());
  CHECK(kept.made);
  CHECK((kept.made_table == kept.own_table));
  CHECK(std::ranges::equal(kept.made_rows, kept.own_rows));

  kept.wanted = false;
  decoder.decode(bytes, request, index, &recorded, nullptr, &kept);
  CHECK_FALSE(kept.made);
  kept.wanted = true;
  const Bytes cut(bytes.begin(), bytes.end() - 40);
  CHECK_THROWS(decoder.decode(cut, request, {}, &recorded, nullptr, &kept));
  CHECK_FALSE(kept.made);
}

TEST_CASE("where there is no memory for coefficients none are kept", "[data]") {
  JpegScan scan;
  scan.mcu_rows = 1, scan.mcus_across = int64_t{1} << 53, scan.blocks = 6;
  JpegKept kept;
  KeptWriter writer(scan, /*stream_bytes=*/0, kept);
  writer.add(nullptr);
  writer.finish();
  CHECK_FALSE(kept.made);
}

}  // namespace composer::kept_coefficients_test
