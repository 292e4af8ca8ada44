#include "tests/fuzz/seeds.h"

#include <algorithm>

#include "base/error.h"
#include "data/index/index_file.h"
#include "data/jpeg/decoder.h"
#include "data/samples/sample_table.h"
#include "data/samples/target_rows.h"
#include "tests/data/beton_bytes.h"
#include "tests/data/kept_in_memory.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/make_tar.h"
#include "tests/data/small_images.h"
#include "tests/files.h"
#include "tests/fuzz/fuzz_targets.h"

namespace composer::test {
namespace {

constexpr uintmax_t kMostBytes = 40'000;  // of a seed

template <class T>
std::string text_of(const T& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void add_files(const fs::path& folder, const std::string& endings,
               std::vector<std::string>& files) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string() + ".";
    if (entry.file_size(error) <= kMostBytes && endings.find(ending) != std::string::npos) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& path : found) files.push_back(read_bytes(path.string()));
}

std::vector<std::string> made_jpegs() {
  std::vector<JpegKind> kinds;
  for (const int samp : {11, 21, 22, 12, 41}) {
    kinds.push_back({.h_samp = samp / 10, .v_samp = samp % 10});
  }
  kinds.push_back({.coded = JCS_GRAYSCALE});
  kinds.push_back({.progressive = true});
  kinds.push_back({.arithmetic = true});
  kinds.push_back({.progressive = true, .arithmetic = true});
  kinds.push_back({.interleaved = false});
  kinds.push_back({.optimized = true});
  kinds.push_back({.restart_interval = 2});
  kinds.push_back({.orientation = 6});
  std::vector<std::string> files;
  for (const auto& kind : kinds) {
    const int64_t channels = kind.coded == JCS_GRAYSCALE ? 1 : 3;
    files.push_back(text_of(make_jpeg(make_picture(45, 70, channels), kind)));
  }
  const Image inks = make_picture(20, 30, 4);
  files.push_back(text_of(make_jpeg(inks, {.coded = JCS_CMYK})));
  files.push_back(text_of(make_jpeg(inks, {.coded = JCS_YCCK})));
  return files;
}

std::string number(uint32_t value) {
  std::string bytes;
  append(bytes, value);
  return bytes;
}

std::string big_endian(std::initializer_list<uint32_t> values) {
  std::string bytes;
  for (const uint32_t value : values) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  }
  return bytes;
}

std::string idx_input(const std::string& images, const std::string& labels) {
  return images + labels + number(static_cast<uint32_t>(labels.size()));
}

}  // namespace

std::vector<std::string> jpeg_seeds() {
  auto files = made_jpegs();
  add_files(shared_data() / "odd", ".jpg.jpeg.", files);
  return files;
}

std::vector<std::string> image_seeds() {
  auto files = jpeg_seeds();
  for (const auto& image : kSmallImages) files.push_back(from_hexadecimal(image.hexadecimal));
  for (const char* text : {"P1 3 2\n101010", "P2 2 1 9 4 5", "P3 1 1 255 1 2 3", "P4 9 2\nabcd",
                           "P5 2 2 255\nabcd", "P6 2 1 65535\nabcdefghijkl"}) {
    files.emplace_back(text);
  }
  add_files(shared_data() / "odd", ".png.gif.ppm.bmp.tif.tiff.JPEG.", files);
  return files;
}

std::vector<std::string> jpeg_decoder_seeds() {
  std::vector<std::string> inputs;
  uint16_t place = 0;
  for (const auto& stream : made_jpegs()) {
    const auto index = make_jpeg_index(span_of(stream));
    for (const bool with_index : {false, true}) {
      JpegDraw draw;
      draw.index_bytes = with_index ? static_cast<uint16_t>(index.size()) : uint16_t{0};
      draw.top = place, draw.left = static_cast<uint16_t>(2 * place);
      draw.height = 20, draw.width = 30;
      draw.scale = static_cast<uint8_t>(place % 4);
      draw.flags = static_cast<uint8_t>(place / 4 % 4);
      ++place;
      const auto* draw_bytes = reinterpret_cast<const char*>(&draw);
      inputs.push_back(stream + (with_index ? text_of(index) : "") +
                       std::string(draw_bytes, sizeof draw));
    }
  }
  return inputs;
}

std::vector<std::string> kept_coefficients_seeds() {
  std::vector<std::string> inputs;
  JpegDecoder decoder;
  KeptDraw draw;
  draw.region.height = 20, draw.region.width = 30;
  for (const auto& stream : made_jpegs()) {
    KeptInMemory kept;
    try {
      decoder.decode(span_of(stream), {{0, 0, 8, 8}}, {}, nullptr, nullptr, &kept);
    } catch (const RunError&) {
      continue;
    }
    if (!kept.take()) continue;
    draw.table_bytes = static_cast<uint32_t>(kept.own_table.size());
    draw.row_bytes = static_cast<uint32_t>(kept.own_rows.size());
    draw.region.top += 3, draw.region.left += 5;
    draw.region.scale = static_cast<uint8_t>(inputs.size() % 8 == 7 ? 1 : 0);
    inputs.push_back(stream + text_of(kept.own_table) + text_of(kept.own_rows) +
                     std::string(reinterpret_cast<const char*>(&draw), sizeof draw));
  }
  return inputs;
}

std::vector<std::string> beton_seeds() {
  const std::string jpeg = text_of(make_jpeg(make_picture(20, 30)));
  const TestImage stored{0, 30, 20, jpeg};
  std::vector<std::string> files;
  TestBeton images;
  images.page_size = 4096;
  images.fields = {{"image", 2, {}, ""}, {"label", 1, {}, ""}};
  images.rows = {{raw_image(4, 3, 1), int64_t{3}}, {stored, int64_t{1}}, {stored, int64_t{0}}};
  files.push_back(beton_bytes(images).file);
  TestBeton all;
  all.fields = {{"a", 0, {}, ""},
                {"b", 1, {}, ""},
                {"c", 3, {}, ""},
                {"d", 5, {}, ""},
                {"e", 4, {2, 3}, R"([["", "<f4"]])"},
                {"f", 6, {4}, R"([["", "<i8"]])"}};
  for (const int64_t i : {1, 2}) {
    all.rows.push_back({0.5, i, std::string(static_cast<size_t>(5 * i), 'x'),
                        std::string("{\"a\": 1}"), std::string(24, 'y'), std::string(32, 'z')});
  }
  files.push_back(beton_bytes(all).file);
  TestBeton numbers;
  numbers.fields = {{"only", 1, {}, ""}};
  numbers.rows = {{int64_t{1}}};
  files.push_back(beton_bytes(numbers).file);
  add_files(shared_data() / ".." / "fixtures", ".beton.", files);
  return files;
}

std::vector<std::string> idx_seeds() {
  const std::string labels = big_endian({0x801, 2}) + "\x03\x09";
  const std::string packed = from_hexadecimal(
      "1f8b08000000000002ff6360e06066606060026219281e05a360148c8251300a3000002e178f8030060000");
  return {idx_input(big_endian({0x803, 2, 28, 28}) + std::string(2 * 28 * 28, 'p'), labels),
          idx_input(packed, labels)};
}

std::vector<std::string> cifar10_seeds() {
  std::string records;
  for (const char label : {3, 9}) {
    records += label;
    records.append(3 * 32 * 32, 'p');
  }
  return {records};
}

std::vector<std::string> index_file_seeds() {
  const TemporaryFolder folder;
  const fs::path file = folder / "seed.index";
  IndexWriter writer(file);
  for (uint64_t key = 0; key < 5; ++key) {
    const std::string index(key * 7, 'i');
    writer.add(key, span_of(index));
  }
  writer.finish({1, 2});
  const std::string one = read_bytes(file.string());
  const auto index = std::make_shared<const std::vector<uint8_t>>(30, 'k');
  append_indices(file, {1, 2}, {{3, {{}, index}}, {6, {{}, index}}});
  return {one, read_bytes(file.string())};
}

std::vector<std::string> sample_table_seeds() {
  SampleTableWriter files, parts(true, SampleCoding::pil);
  for (const char* name : {"cat", "dog"}) files.add_class(name);
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    files.add_file((i % 3 < 2 ? "cat/" : "dog/deep/") + name, i % 2);
    parts.add_part(i < 4 ? "a.tar" : "/b.tar", name, 512 * static_cast<uint64_t>(i), 400, i);
  }
  files.watch("cat", {PathStamp::folder, 1, 0, 2, 3});
  files.watch("dog/link", {.kind = PathStamp::no_folder});
  parts.watch("a.tar", {PathStamp::file, 1, 4096, 2, 3});
  TargetRows rows({"x", "y"});
  SampleTableWriter numbers;
  for (int i = 0; i < 6; ++i) {
    numbers.add_file(std::to_string(i) + ".jpg", 0);
    rows.add({{static_cast<float>(i)}, {1, 2}});
  }
  numbers.set_values(rows);
  return {text_of(files.bytes()), text_of(parts.bytes()), text_of(numbers.bytes())};
}

std::vector<std::string> tar_seeds() {
  const auto sample = [](const std::string& key, const std::string& label) {
    return tar_member(key + ".jpg", std::string(600, 'i')) + tar_member(key + ".cls", label);
  };
  const std::string long_name = std::string(120, 'n') + "/x";
  return {sample("a/1", "3") + sample("a/2", "4") + tar_end(),
          tar_member("b.png", "x") + tar_member("b.json", R"({"label": 7})") + tar_end(),
          tar_pax({{"path", long_name + ".jpg"}, {"mtime", "1.5"}}) + tar_member("cut", "x") +
              tar_member("l", long_name + ".cls" + '\0', 'L') + tar_member("cut", "5") + tar_end(),
          tar_member("folder/", "", '5') + tar_header("link", 0, '2') + sample("c", "0")};
}

std::vector<std::string> mds_seeds() {
  const auto seed = [](const std::string& shard, const std::string& encoding,
                       const std::string& size) {
    const std::string index =
        R"({"shards": [{"column_encodings": ["jpeg", ")" + encoding +
        R"("], "column_names": ["image", "label"], "column_sizes": [null, )" + size +
        R"(], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": )"
        R"("shard.00000.mds", "bytes": )" +
        std::to_string(shard.size()) +
        R"(, "hashes": {}}, "samples": 2, "size_limit": 67108864, "version": 2, "zip_data": )"
        R"(null}], "version": 2})";
    return shard + index + number(static_cast<uint32_t>(index.size()));
  };
  const std::string array = "\x22\x04\x02" + mds_number(1.F) + mds_number(2.F);
  return {seed(mds_shard({{"image", mds_number(int64_t{3})}, {"", mds_number(int64_t{0})}},
                         {false, true}),
               "int", "8"),
          seed(mds_shard({{"image", array}, {"", array}}, {false, false}), "ndarray", "null")};
}

std::vector<std::string> list_seeds() {
  const std::string quoted =
      "path,label,note\r\n\"a \"\"1\"\".jpg\",cat,\"x\ny\"\r\nb.jpg,dog,\r\n";
  const std::string json = "{\"path\": \"a.jpg\", \"label\": 1}\n{\"label\": 0, \"file\": \"b\"}\n";
  return {std::string(1, '\0') + "file,label\na.jpg,1.5 2\nb.jpg,-1e3 0\n",
          std::string(1, '\0') + "a.jpg,1\nb/c.jpg,0\n", std::string(1, '\0') + quoted,
          "\1a.jpg\t1\nb.jpg\tx\n", "\2" + json};
}

}  // namespace composer::test
