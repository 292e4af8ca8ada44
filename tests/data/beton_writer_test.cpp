#include "data/beton_writer.h"

#include <catch2/catch.hpp>
#include <map>

#include "composer/error.h"
#include "data/beton_source.h"
#include "data/decode.h"
#include "data/jpeg.h"
#include "data/jpeg_header.h"
#include "data/orient.h"
#include "data/sha256.h"
#include "data/write_beton.h"
#include "tests/data/helpers.h"
#include "tests/data/make_jpeg.h"

using namespace composer;
using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<uint8_t>;

/// Files in memory.
class FakeFiles : public Source {
 public:
  std::vector<Bytes> files;
  std::vector<int64_t> labels;

  void add(Bytes file) {
    labels.push_back(static_cast<int64_t>(files.size() * 7 % 10));
    files.push_back(std::move(file));
  }
  int64_t size() const override { return static_cast<int64_t>(files.size()); }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t i) const override { return labels[static_cast<size_t>(i)]; }
  std::string name(int64_t i) const override { return "file" + std::to_string(i); }
  StoredImage open(int64_t i, ReadScratch& scratch) const override {
    const Bytes& file = files[static_cast<size_t>(i)];
    if (file.size() == 3) throw std::logic_error("a fault");
    if (file.size() > 2 && file[0] == 0xFF && file[1] == 0xD8) {
      const JpegHeader header = read_jpeg_header(file);
      return {.jpeg = true,
              .bytes = file,
              .size = header.upright_size(),
              .orientation = header.orientation};
    }
    decode_image(file, scratch.image);
    return {};
  }
};

/// Pixels in memory.
class FakePixels : public Source {
 public:
  explicit FakePixels(std::vector<Image> images) : images_(std::move(images)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  int64_t channels() const override { return images_[0].channels; }
  int64_t label(int64_t i) const override { return -i; }
  std::string name(int64_t i) const override { return "image" + std::to_string(i); }
  StoredImage open(int64_t i, ReadScratch&) const override {
    const Image& image = images_[static_cast<size_t>(i)];
    return {.bytes = {image.pixels.data(),
                      static_cast<size_t>(image.height * image.width * image.channels)},
            .size = {image.height, image.width},
            .channels = image.channels};
  }

 private:
  std::vector<Image> images_;
};

std::vector<Image> pictures(int count) {
  std::vector<Image> images;
  for (int i = 0; i < count; ++i) images.push_back(make_picture(30 + i % 17, 40 + i % 5));
  return images;
}

Bytes pixels_of(const Image& image) {
  return {
      image.pixels.begin(),
      image.pixels.begin() + static_cast<ptrdiff_t>(image.height * image.width * image.channels)};
}

Bytes decoded(std::span<const uint8_t> bytes) {
  Image image;
  decode_jpeg(bytes, image);
  return pixels_of(image);
}

struct Row {
  bool jpeg;
  ImageSize size;
  Bytes bytes;
  int64_t label;
  bool operator==(const Row&) const = default;
};

std::vector<Row> rows_of(const std::string& path) {
  const BetonFile file(path);
  CHECK(file.fields().at(0).name == "image");
  CHECK(file.fields().at(1).name == "label");
  std::vector<Row> rows;
  for (int64_t i = 0; i < file.samples(); ++i) {
    const auto image = file.image(i, 0);
    rows.push_back(
        {image.jpeg, image.size, {image.bytes.begin(), image.bytes.end()}, file.integer(i, 1)});
  }
  return rows;
}

WriteOptions options_of(WriteMode mode) {
  WriteOptions options;
  options.pack.mode = mode;
  options.num_workers = 2;
  return options;
}

/// Some streams of each kind that is taken over, and some that are not.
FakeFiles mixed_files() {
  FakeFiles files;
  const Image picture = make_picture(64, 48), odd = make_picture(50, 41);
  files.add(make_jpeg(picture));
  files.add(make_jpeg(picture, {.h_samp = 1, .v_samp = 1, .restart_interval = 4}));
  files.add(make_jpeg(picture, {.progressive = true}));
  files.add(make_jpeg(make_picture(20, 30, 1), {.coded = JCS_GRAYSCALE}));
  files.add(make_jpeg(picture, {.orientation = 6}));
  files.add(make_jpeg(odd, {.orientation = 6}));
  files.add(make_jpeg(make_picture(33, 22, 4), {.h_samp = 1, .v_samp = 1, .coded = JCS_YCCK}));
  files.add(make_jpeg(picture, {.arithmetic = true}));
  files.add(make_jpeg(picture, {.interleaved = false}));
  files.add(make_jpeg(odd, {.h_samp = 1, .v_samp = 1, .coded = JCS_RGB}));
  return files;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("pixels come back as they were written", "[data]") {
  const TempFolder folder;
  const auto images = pictures(40);
  const auto report =
      write_beton(FakePixels(images), folder / "f.beton", options_of(WriteMode::raw));
  const auto rows = rows_of(folder / "f.beton");
  REQUIRE(rows.size() == 40);
  for (size_t i = 0; i < 40; ++i) {
    CHECK_FALSE(rows[i].jpeg);
    CHECK(rows[i].size == ImageSize{images[i].height, images[i].width});
    CHECK((rows[i].bytes == pixels_of(images[i])));
    CHECK(rows[i].label == -static_cast<int64_t>(i));
  }
  CHECK(report.raw == 40);
  CHECK(report.rows == 40);
  CHECK(report.bytes == fs::file_size(folder / "f.beton"));
  CHECK(names_in(folder.path) == std::vector<std::string>{"f.beton"});
}

TEST_CASE("gray pixels become RGB", "[data]") {
  const TempFolder folder;
  const Image gray = make_picture(28, 28, 1);
  write_beton(FakePixels({gray}), folder / "f.beton", options_of(WriteMode::raw));
  const auto rows = rows_of(folder / "f.beton");
  REQUIRE(rows.at(0).bytes.size() == 28 * 28 * 3);
  for (size_t i = 0; i < rows[0].bytes.size(); ++i) REQUIRE(rows[0].bytes[i] == gray.pixels[i / 3]);
}

TEST_CASE("JPEG streams are taken over without loss where that can be", "[data]") {
  const TempFolder folder;
  const FakeFiles files = mixed_files();
  std::map<int64_t, Bytes> indices;
  WriteOptions options = options_of(WriteMode::jpg);
  options.index = [&](int64_t row, const Bytes& index) { indices[row] = index; };
  const auto report = write_beton(files, folder / "f.beton", options);
  CHECK(report.passed == 5);
  CHECK(report.transcoded == 2);
  CHECK(report.rotated == 1);
  CHECK(report.encoded == 2);
  const auto rows = rows_of(folder / "f.beton");
  for (const size_t i : {0, 1, 3, 8, 9}) CHECK((rows[i].bytes == files.files[i]));
  for (const size_t i : {2, 7}) {
    CHECK((decoded(rows[i].bytes) == decoded(files.files[i])));
    CHECK(read_jpeg_header(rows[i].bytes).baseline);
  }
  for (const size_t i : {4, 5}) {
    CHECK(read_jpeg_header(rows[i].bytes).orientation == 1);
    Image upright;
    decode_jpeg(files.files[i], upright);
    apply_orientation(upright, 6);
    CHECK(rows[i].size == ImageSize{upright.height, upright.width});
    const Bytes now = decoded(rows[i].bytes), wanted = pixels_of(upright);
    REQUIRE(now.size() == wanted.size());
    double sum = 0;
    for (size_t k = 0; k < now.size(); ++k) sum += std::abs(int{now[k]} - int{wanted[k]});
    CHECK(sum / static_cast<double>(now.size()) < (i == 4 ? 0.5 : 5));
  }
  for (const Row& row : rows) {
    CHECK(read_jpeg_header(row.bytes).components != 4);
    CHECK(read_jpeg_header(row.bytes).size == row.size);
  }
  REQUIRE(indices.size() == rows.size());
  for (const auto& [row, index] : indices) {
    CHECK((index == make_jpeg_index(rows[static_cast<size_t>(row)].bytes)));
  }
}

TEST_CASE("what follows an image goes, an end marker that lacks comes", "[data]") {
  const TempFolder folder;
  FakeFiles files;
  const Bytes good = make_jpeg(make_picture(40, 40));
  files.add(good);
  files.files[0].insert(files.files[0].end(), good.begin(), good.end());
  files.add(Bytes(good.begin(), good.end() - 2));
  std::vector<Bytes> indices;
  WriteOptions options = options_of(WriteMode::jpg);
  options.index = [&](int64_t, const Bytes& index) { indices.push_back(index); };
  CHECK(write_beton(files, folder / "f.beton", options).passed == 2);
  for (const Row& row : rows_of(folder / "f.beton")) CHECK((row.bytes == good));
  CHECK((indices == std::vector<Bytes>(2, make_jpeg_index(good))));
}

TEST_CASE("any number of threads writes the same bytes", "[data]") {
  const TempFolder folder;
  FakeFiles files;
  for (int i = 0; i < 12; ++i) {
    for (auto& file : mixed_files().files) files.add(std::move(file));
  }
  for (const WriteMode mode : {WriteMode::proportion, WriteMode::raw, WriteMode::jpg}) {
    std::string first;
    for (const int threads : {1, 2, 5}) {
      WriteOptions options = options_of(mode);
      options.num_workers = threads;
      options.pack.max_resolution = 45;
      write_beton(files, folder / "f.beton", options);
      const std::string bytes = read_bytes(folder / "f.beton");
      if (first.empty()) first = bytes;
      CHECK((bytes == first));
    }
  }
}

TEST_CASE("damaged, cut and foreign files are bad samples", "[data]") {
  const TempFolder folder;
  FakeFiles files;
  const Bytes good = make_jpeg(make_picture(64, 48));
  const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  const std::string text = "not an image";
  files.add(Bytes(text.begin(), text.end()));
  files.add(cut);
  files.add(good);
  files.add(make_jpeg(make_picture(32, 32)));
  files.add(cut);
  files.add(good);
  WriteOptions options = options_of(WriteMode::jpg);
  CHECK_THROWS_WITH(write_beton(files, folder / "f.beton", options), Contains("file0: "));
  CHECK(names_in(folder.path).empty());

  options.on_bad_sample = BadImage::skip;
  options.pack.index = false;
  CHECK(write_beton(files, folder / "f.beton", options).rows == 3);
  options.pack.index = true;
  auto report = write_beton(files, folder / "f.beton", options);
  auto rows = rows_of(folder / "f.beton");
  REQUIRE(rows.size() == 3);
  CHECK(report.rows == 3);
  REQUIRE(report.bad.size() == 3);
  CHECK(report.bad[1].first == "file1");
  CHECK_THAT(report.bad[1].second, Contains("end too early"));
  CHECK((rows[1].bytes == files.files[3]));
  CHECK(rows[1].label == files.label(3));

  options.on_bad_sample = BadImage::replace;
  std::vector<int64_t> indexed;
  options.index = [&](int64_t row, const Bytes&) { indexed.push_back(row); };
  report = write_beton(files, folder / "f.beton", options);
  rows = rows_of(folder / "f.beton");
  REQUIRE(rows.size() == 6);
  const std::vector<int64_t> from{2, 2, 2, 3, 3, 5};
  for (size_t i = 0; i < 6; ++i) {
    CHECK((rows[i].bytes == files.files[static_cast<size_t>(from[i])]));
    CHECK(rows[i].label == files.label(from[i]));
  }
  CHECK(report.bad.size() == 3);
  CHECK(indexed == std::vector<int64_t>{0, 1, 2, 3, 4, 5});

  files.files.resize(2);
  CHECK_THROWS_WITH(write_beton(files, folder / "g.beton", options),
                    Contains("no image can be read") && Contains("file0"));
  CHECK(names_in(folder.path) == std::vector<std::string>{"f.beton"});
}

TEST_CASE("what ends the writing leaves nothing, and an older file as it was", "[data]") {
  const TempFolder folder;
  FakeFiles files = mixed_files();
  write_file(folder / "f.beton", "older");
  write_file(folder / "f.beton.partial-1", "of a process that was killed");
  WriteOptions options = options_of(WriteMode::jpg);
  options.progress = [](int64_t done, int64_t) {
    if (done == 5) throw std::runtime_error("enough");
  };
  CHECK_THROWS_WITH(write_beton(files, folder / "f.beton", options), "enough");
  options.progress = nullptr;
  files.add({1, 2, 3});
  CHECK_THROWS_WITH(write_beton(files, folder / "f.beton", options), "a fault");
  CHECK(read_bytes(folder / "f.beton") == "older");
  CHECK(names_in(folder.path) == std::vector<std::string>{"f.beton", "f.beton.partial-1"});
  CHECK_THROWS_AS(write_beton(files, folder / "none/f.beton", options), UserError);
  files.files.pop_back();
  write_beton(files, folder / "f.beton", options);
  CHECK(rows_of(folder / "f.beton").size() == 10);
}

TEST_CASE("proportion and smart choose what is compressed", "[data]") {
  const TempFolder folder;
  const FakePixels images(pictures(400));
  WriteOptions options = options_of(WriteMode::proportion);
  options.pack.compress_probability = 0.25;
  auto report = write_beton(images, folder / "f.beton", options);
  CHECK(report.encoded > 70);
  CHECK(report.encoded < 130);
  CHECK(report.raw == 400 - report.encoded);
  const std::string first = read_bytes(folder / "f.beton");
  options.pack.seed = 1;
  write_beton(images, folder / "f.beton", options);
  CHECK((read_bytes(folder / "f.beton") != first));

  options = options_of(WriteMode::smart);
  CHECK(write_beton(images, folder / "f.beton", options).raw == 400);
  options.pack.smart_threshold = 38 * 41 * 3;
  write_beton(images, folder / "f.beton", options);
  for (const Row& row : rows_of(folder / "f.beton")) {
    CHECK(row.jpeg == (row.size.height * row.size.width > 38 * 41));
  }
}

TEST_CASE("sizes follow FFCV's max_resolution", "[data]") {
  CHECK(packed_size({100, 161}, 128) == ImageSize{79, 127});
  CHECK(packed_size({375, 500}, 500) == ImageSize{375, 500});
  CHECK(packed_size({375, 500}, 600) == ImageSize{375, 500});
  CHECK(packed_size({1, 4000}, 500) == ImageSize{1, 500});
  CHECK(packed_size({10, 20}, std::nullopt) == ImageSize{10, 20});
  const TempFolder folder;
  WriteOptions options = options_of(WriteMode::jpg);
  options.pack.max_resolution = 24;
  FakeFiles files;
  files.add(make_jpeg(make_picture(24, 20)));
  files.add(make_jpeg(make_picture(48, 20)));
  files.add(make_jpeg(make_picture(20, 300), {.orientation = 6}));
  const auto report = write_beton(files, folder / "f.beton", options);
  CHECK(report.resized == 2);
  const auto rows = rows_of(folder / "f.beton");
  CHECK((rows[0].bytes == files.files[0]));
  CHECK(rows[1].size == ImageSize{24, 10});
  CHECK(rows[2].size == ImageSize{24, 1});
}

TEST_CASE("an image lies in one page, and pages grow when they must", "[data]") {
  const TempFolder folder;
  std::vector<Image> images;
  for (const int height : {700, 700, 700, 100}) images.push_back(make_picture(height, 700));
  WriteOptions options = options_of(WriteMode::raw);
  options.page_size = 2 << 20;
  write_beton(FakePixels(images), folder / "f.beton", options);
  const BetonFile small(folder / "f.beton");
  CHECK(small.page_size() == 2 << 20);
  std::vector<uint64_t> pages;
  for (int i = 0; i < 4; ++i) pages.push_back(small.page(i, 0));
  CHECK(pages == std::vector<uint64_t>{1, 2, 3, 3});

  images[1] = make_picture(1300, 2400);
  CHECK_THROWS_WITH(write_beton(FakePixels(images), folder / "g.beton", options),
                    Contains("image1") && Contains("page_size"));
  options.page_size = 0;
  write_beton(FakePixels(images), folder / "f.beton", options);
  const BetonFile large(folder / "f.beton");
  CHECK(large.page_size() == 16 << 20);
  for (int i = 0; i < 4; ++i) {
    const auto image = large.image(i, 0);
    CHECK(std::equal(image.bytes.begin(), image.bytes.end(),
                     images[static_cast<size_t>(i)].pixels.begin()));
  }
  options.page_size = 3 << 20;
  CHECK_THROWS_AS(write_beton(FakePixels(images), folder / "f.beton", options), UserError);
}

TEST_CASE("rows are chosen, and a .beton becomes another", "[data]") {
  const TempFolder folder;
  const FakeFiles files = mixed_files();
  WriteOptions options = options_of(WriteMode::proportion);
  write_beton(files, folder / "a.beton", options);
  const auto before = rows_of(folder / "a.beton");
  options = options_of(WriteMode::keep);
  write_beton(BetonSource(folder / "a.beton", 3), folder / "b.beton", options);
  CHECK((rows_of(folder / "b.beton") == before));
  options.rows = {7, 0, 7};
  write_beton(BetonSource(folder / "a.beton", 3), folder / "b.beton", options);
  CHECK((rows_of(folder / "b.beton") == std::vector<Row>{before[7], before[0], before[7]}));
  options.rows = {10};
  CHECK_THROWS_WITH(write_beton(BetonSource(folder / "a.beton", 3), folder / "b.beton", options),
                    Contains("no row 10"));
  options.rows = {};
  options.pack.max_resolution = 45;
  write_beton(BetonSource(folder / "a.beton", 3), folder / "b.beton", options);
  const auto after = rows_of(folder / "b.beton");
  for (size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].jpeg == before[i].jpeg);
    CHECK(after[i].size == packed_size(before[i].size, 45));
  }
}

TEST_CASE("FFCV reads every kind of file that is written", "[data]") {
  const char* python = std::getenv("COMPOSER_FFCV_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_FFCV_PYTHON names no Python with FFCV");
    return;
  }
  const TempFolder folder;
  FakeFiles files = mixed_files();
  files.add(Bytes{'b', 'a', 'd'});
  files.files.back().push_back('!');
  WriteOptions options = options_of(WriteMode::proportion);
  options.on_bad_sample = BadImage::replace;
  write_beton(files, folder / "mixed.beton", options);
  options.pack.mode = WriteMode::jpg;
  write_beton(files, folder / "jpg.beton", options);
  std::vector<Image> images = pictures(30);
  images.push_back(make_picture(1300, 2400));
  images.push_back(make_picture(40, 40));
  write_beton(FakePixels(images), folder / "large.beton", options_of(WriteMode::raw));
  write_file(folder / "read.py", R"(
import hashlib, sys
import numpy as np
from ffcv.loader import Loader, OrderOption
from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
from ffcv.fields.rgb_image import RGBImageField
from ffcv.reader import Reader
from ffcv.libffcv import imdecode
for name in sys.argv[1:]:
    r = Reader(name + '.beton')
    sizes = dict(zip(r.alloc_table['ptr'], r.alloc_table['size']))
    data = np.fromfile(name + '.beton', 'u1')
    with open(name + '.txt', 'w') as out:
        for row in r.metadata:
            mode, w, h, ptr = row['f0']['mode'], int(row['f0']['width']), int(row['f0']['height']), row['f0']['data_ptr']
            raw = data[ptr:ptr + sizes[ptr]]
            if mode == 0:
                pixels = np.zeros((h, w, 3), 'u1')
                imdecode(raw.copy(), pixels, h, w, h, w, 0, 0, 1, 1, False, False)
            else:
                pixels = raw.reshape(h, w, 3)
            out.write('%d %d %d %s\n' % (row['f1'], w, h, hashlib.sha256(pixels.tobytes()).hexdigest()))
    sums = []
    for cache in (True, False):
        loader = Loader(name + '.beton', batch_size=4, num_workers=1, order=OrderOption.SEQUENTIAL, os_cache=cache, drop_last=False,
                        pipelines={'image': [CenterCropRGBImageDecoder((16, 16), 1)], 'label': [IntDecoder()]})
        sums.append([(int(x.astype('i8').sum()), y.ravel().tolist()) for x, y in loader])
    assert sums[0] == sums[1] and sum(len(y) for _, y in sums[0]) == r.num_samples
)");
  const std::string command =
      "cd " + folder.path.string() + " && " + python + " read.py mixed jpg large > read.log 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  for (const std::string name : {"mixed", "jpg", "large"}) {
    const BetonFile file(folder / (name + ".beton"));
    std::ifstream lines(folder / (name + ".txt"));
    JpegDecoder decoder;
    for (int64_t row = 0; row < file.samples(); ++row) {
      const auto image = file.image(row, 0);
      int64_t label = 0;
      ImageSize size;
      std::string hash;
      REQUIRE(lines >> label >> size.width >> size.height >> hash);
      CHECK(label == file.integer(row, 1));
      CHECK(size == image.size);
      std::string ours;
      if (image.jpeg) {
        const auto part = decoder.decode(
            image.bytes, {.region = {0, 0, size.height, size.width}, .dct = Dct::fast});
        Bytes pixels;
        for (int64_t y = 0; y < size.height; ++y) {
          pixels.insert(pixels.end(), part.pixels.row(y), part.pixels.row(y) + size.width * 3);
        }
        ours = sha256_hex(pixels);
      } else {
        ours = sha256_hex(image.bytes);
      }
      CHECK(ours == hash);
    }
  }
}
