#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "data/beton/pack_image.h"
#include "data/beton/source.h"
#include "data/beton/writer.h"
#include "data/jpeg/header.h"
#include "data/pixels/orient.h"
#include "tests/data/fake_sources.h"
#include "tests/data/make_jpeg.h"
#include "tests/files.h"

namespace composer::beton_writer_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("pixels come back as they were written", "[data]") {
  const TemporaryFolder folder;
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
  CHECK(names_in(folder.path()) == std::vector<std::string>{"f.beton"});
}

TEST_CASE("a stream of another size than its row says is refused", "[data]") {
  const TemporaryFolder folder;
  {
    BetonWriter writer(folder / "f.beton", 2);
    const auto stream = make_jpeg(make_picture(48, 64));
    writer.add(true, {40, 64}, stream, 1);
    writer.add(true, {48, 64}, stream, 1);
    writer.finish();
  }
  const BetonSource source(folder / "f.beton", 3);
  ReadScratch scratch;
  const JpegRequest request{{0, 0, 8, 8}};
  CHECK_THROWS_WITH(read_part(source.open(0, scratch), request, 3, scratch),
                    Catch::Matchers::Contains("64 x 40"));
  CHECK(read_part(source.open(1, scratch), request, 3, scratch).box == request.region);
}

TEST_CASE("gray pixels become RGB", "[data]") {
  const TemporaryFolder folder;
  const Image gray = make_picture(28, 28, 1);
  write_beton(FakePixels({gray}), folder / "f.beton", options_of(WriteMode::raw));
  const auto rows = rows_of(folder / "f.beton");
  REQUIRE(rows.at(0).bytes.size() == 28 * 28 * 3);
  for (size_t i = 0; i < rows[0].bytes.size(); ++i) REQUIRE(rows[0].bytes[i] == gray.pixels[i / 3]);
}

TEST_CASE("JPEG streams are taken over without loss where that can be", "[data]") {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  CHECK(names_in(folder.path()).empty());

  options.on_bad_sample = OnBadSample::skip;
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

  options.on_bad_sample = OnBadSample::replace;
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
  CHECK(names_in(folder.path()) == std::vector<std::string>{"f.beton"});
}

TEST_CASE("what ends the writing leaves nothing, and an older file as it was", "[data]") {
  const TemporaryFolder folder;
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
  CHECK(names_in(folder.path()) == std::vector<std::string>{"f.beton", "f.beton.partial-1"});
  CHECK_THROWS_AS(write_beton(files, folder / "none/f.beton", options), UserError);
  files.files.pop_back();
  write_beton(files, folder / "f.beton", options);
  CHECK(rows_of(folder / "f.beton").size() == 10);
}

TEST_CASE("proportion and smart choose what is compressed", "[data]") {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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

TEST_CASE("a stream of another size than its row tells is not written", "[data]") {
  const auto bytes = make_jpeg(make_picture(40, 60));
  for (const bool passthrough : {true, false}) {
    PackOptions options;
    options.mode = WriteMode::jpg, options.passthrough = passthrough;
    ImagePacker packer(options);
    ReadScratch scratch;
    const auto pack = [&](ImageSize size) {
      StoredImage image;
      image.jpeg = true, image.bytes = bytes, image.size = size;
      return packer.pack(std::move(image), 0, scratch);
    };
    CHECK_THROWS_AS(pack({40, 30}), RunError);
    CHECK(pack({40, 60}).is_jpeg());
  }
}

TEST_CASE("rows are chosen, and a .beton becomes another", "[data]") {
  const TemporaryFolder folder;
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

}  // namespace composer::beton_writer_test
