// Gray images, those of 16 bits and those with transparency become RGB by one rule, wherever they
// lie (docs/data.md, "Gray, 16 bits and transparency").
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/webdataset.h"
#include "tests/data/fake_sources.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/make_tar.h"
#include "tests/files.h"

namespace composer::plain_rgb_test {

using namespace composer::test;

namespace {

std::string text(std::initializer_list<int> bytes) {
  std::string all;
  for (const int byte : bytes) all += static_cast<char>(byte);
  return all;
}

std::string png_chunk(const std::string& kind_and_content) {
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(kind_and_content.data()),
                         static_cast<uInt>(kind_and_content.size()));
  return big_endian(static_cast<uint32_t>(kind_and_content.size() - 4)) + kind_and_content +
         big_endian(static_cast<uint32_t>(sum));
}

enum PngColour { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

/// Two pixels beside each other.
std::string png(int bits, PngColour colour, const std::string& pixels,
                const std::string& chunks = {}) {
  const std::string row = text({0}) + pixels;
  std::string packed(100, '\0');
  auto size = static_cast<uLongf>(packed.size());
  REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                   reinterpret_cast<const Bytef*>(row.data()), row.size()) == Z_OK);
  return "\x89PNG\r\n\x1A\n" +
         png_chunk("IHDR" + big_endian(2) + big_endian(1) + text({bits, colour, 0, 0, 0})) +
         chunks + png_chunk("IDAT" + packed.substr(0, size)) + png_chunk("IEND");
}

/// Two pixels beside each other, little-endian. extra: what the last sample is (TIFF's
/// ExtraSamples); -1: a colour.
std::string tiff(int bits, int samples, int extra, const std::string& pixels) {
  std::vector<std::array<int, 3>> tags{{256, 4, 2},    {257, 4, 1},
                                       {258, 3, bits},  // of gray; else where the depths lie
                                       {259, 3, 1},    {262, 3, samples < 3 ? 1 : 2},
                                       {273, 4, 0},    {277, 3, samples},
                                       {278, 4, 1},    {279, 4, static_cast<int>(pixels.size())}};
  if (extra >= 0) tags.push_back({338, 3, extra});
  const int depths = 8 + 2 + static_cast<int>(tags.size()) * 12 + 4;
  const int begin = depths + 2 * samples;
  const auto number = [](int value, int bytes) {
    std::string all;
    for (int i = 0; i < bytes; ++i) all += static_cast<char>(value >> 8 * i);
    return all;
  };
  std::string file = "II" + number(42, 2) + number(8, 4) + number(static_cast<int>(tags.size()), 2);
  for (const auto& [tag, type, value] : tags) {
    const bool many = tag == 258 && samples > 2;
    const int shown = many ? depths : tag == 273 ? begin : value;
    file += number(tag, 2) + number(type, 2) + number(tag == 258 ? samples : 1, 4);
    file += tag == 258 && samples == 2 ? number(bits, 2) + number(bits, 2) : number(shown, 4);
  }
  file += number(0, 4);
  for (int i = 0; i < samples; ++i) file += number(bits, 2);
  return file + pixels;
}

struct Case {
  const char* name;
  std::string file;
  std::string rgb;  ///< of its two pixels
};

std::vector<Case> cases() {
  const std::string gray = text({16, 16, 16, 240, 240, 240});
  const std::string colours = text({1, 2, 3, 4, 5, 6});
  const std::string palette = png_chunk("PLTE" + colours) + png_chunk("tRNS" + text({0, 128}));
  return {
      {"gray PNG", png(8, kGray, text({16, 240})), gray},
      {"gray PNG of one bit", png(1, kGray, text({0x40})), text({0, 0, 0, 255, 255, 255})},
      {"gray PNG of 16 bits", png(16, kGray, text({16, 255, 240, 0})), gray},
      {"RGB PNG of 16 bits", png(16, kRgb, text({1, 255, 2, 128, 3, 127, 4, 0, 5, 1, 6, 254})),
       colours},
      {"RGBA PNG", png(8, kRgba, text({1, 2, 3, 0, 4, 5, 6, 128})), colours},
      {"RGBA PNG of 16 bits",
       png(16, kRgba, text({1, 255, 2, 0, 3, 0, 0, 0, 4, 0, 5, 0, 6, 255, 128, 0})), colours},
      {"gray PNG with alpha", png(8, kGrayAlpha, text({16, 0, 240, 255})), gray},
      {"PNG with a palette and transparent colours", png(8, kPalette, text({0, 1}), palette),
       colours},
      {"gray TIFF of 16 bits", tiff(16, 1, -1, text({255, 16, 0, 240})), gray},
      {"gray TIFF with alpha", tiff(8, 2, 2, text({16, 0, 240, 7})), gray},
      {"RGBA TIFF", tiff(8, 4, 2, text({1, 2, 3, 0, 4, 5, 6, 128})), colours},
      {"RGBA TIFF, multiplied by its alpha", tiff(8, 4, 1, text({9, 9, 9, 0, 2, 3, 4, 128})),
       text({0, 0, 0, 3, 5, 7})},
      {"PGM", "P5 2 1 255\n" + text({16, 240}), gray},
      {"PGM of 16 bits", "P5 2 1 65535\n" + text({16, 128, 240, 0}),
       text({16, 16, 16, 239, 239, 239})},
      {"PGM up to 4", "P2 2 1 4 1 4", text({64, 64, 64, 255, 255, 255})},
  };
}

std::string pixels_of(const Source& source, int64_t index) {
  ReadScratch scratch;
  const auto image = source.open(index, scratch);
  const auto all = read_part(image, {.region = {0, 0, image.size.height, image.size.width}},
                             source.channels(), scratch)
                       .pixels;
  std::string bytes;
  for (int64_t y = 0; y < all.height; ++y)
    bytes.append(reinterpret_cast<const char*>(all.row(y)),
                 static_cast<size_t>(all.width * all.channels));
  return bytes;
}

std::string numbers(const std::string& bytes) {
  std::string all;
  for (const char byte : bytes) all += std::to_string(static_cast<uint8_t>(byte)) + " ";
  return all;
}

/// The same files in class folders, a list, tar files, MDS shards, and a .beton file of pixels.
struct EverySet : TemporaryFolder {
  explicit EverySet(const std::vector<std::string>& files) {
    std::string list, tar;
    std::vector<std::vector<std::string>> samples;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string name = std::to_string(100 + i);
      write_file(*this / ("folders/0/" + name + ".png"), files[i]);
      list += "0/" + name + ".png,0\n";
      tar += tar_member(name + ".png", files[i]) + tar_member(name + ".cls", "0");
      samples.push_back({files[i], mds_number(int64_t{0})});
    }
    write_file(*this / "folders/list.csv", list);
    write_file(*this / "tar/a.tar", tar + tar_end());
    const auto shard = mds_shard(samples, {false, true});
    write_file(*this / "mds/shard.00000.mds", shard);
    const nlohmann::json index{
        {"version", 2},
        {"shards",
         {{{"format", "mds"},
           {"version", 2},
           {"column_names", {"image", "label"}},
           {"column_encodings", {"png", "int"}},
           {"column_sizes", {nullptr, 8}},
           {"samples", samples.size()},
           {"raw_data", {{"basename", "shard.00000.mds"}, {"bytes", shard.size()}}},
           {"compression", nullptr}}}}};
    write_file(*this / "mds/index.json", index.dump());
    FolderParams folders;
    folders.datadir = *this / "folders";
    sources["folders"] = open_class_folders(folders);
    ImageListParams images;
    images.file = *this / "folders/list.csv";
    sources["list"] = images.open("").source;
    WebDatasetParams webdataset;
    webdataset.datadir = *this / "tar";
    sources["webdataset"] = webdataset.open("").source;
    MdsParams mds;
    mds.datadir = *this / "mds";
    sources["mds"] = mds.open("").source;
    write_beton(*sources["folders"], *this / "raw.beton", options_of(WriteMode::raw));
    sources["beton"] = std::make_shared<BetonSource>(*this / "raw.beton", 3);
  }

  std::map<std::string, std::shared_ptr<Source>> sources;
};

}  // namespace

TEST_CASE("gray, 16 bits and transparency become RGB by one rule in every set", "[data]") {
  const auto all = cases();
  std::vector<std::string> files;
  for (const auto& one : all) files.push_back(one.file);
  const EverySet sets(files);
  for (const auto& [name, source] : sets.sources) {
    for (size_t i = 0; i < all.size(); ++i) {
      INFO(name << ": " << all[i].name);
      CHECK(numbers(pixels_of(*source, static_cast<int64_t>(i))) == numbers(all[i].rgb));
    }
  }
}

TEST_CASE("a gray JPEG becomes RGB whose channels are alike, in every set", "[data]") {
  const auto stream = make_jpeg(make_picture(24, 32, 1), {.coded = JCS_GRAYSCALE});
  const EverySet sets(std::vector<std::string>{{stream.begin(), stream.end()}});
  const std::string expected = pixels_of(*sets.sources.at("folders"), 0);
  REQUIRE(expected.size() == 24 * 32 * 3);
  for (size_t i = 0; i < expected.size(); i += 3)
    REQUIRE((expected[i] == expected[i + 1] && expected[i] == expected[i + 2]));
  for (const auto& [name, source] : sets.sources) {
    INFO(name);
    CHECK(pixels_of(*source, 0) == expected);
  }
}

TEST_CASE("a set of gray images keeps gray values, and takes the luma of colours", "[data]") {
  const TemporaryFolder folder;
  const auto gray_of = [&](const std::string& file) {
    write_file(folder / "a.png", file);
    return numbers(pixels_of(*open_image_files({folder / "a.png"}, 1), 0));
  };
  CHECK(gray_of(png(8, kGray, text({16, 240}))) == "16 240 ");
  CHECK(gray_of(png(16, kGrayAlpha, text({16, 255, 0, 0, 240, 0, 255, 255}))) == "16 240 ");
  CHECK(gray_of(png(8, kRgb, text({255, 0, 0, 0, 255, 0}))) == "76 150 ");
}

}  // namespace composer::plain_rgb_test
