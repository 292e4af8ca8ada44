// .beton files that another program cuts off while they are read.
#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "data/batches/image_loader.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "nn/network/batch.h"
#include "tests/data/beton_bytes.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::lost_bytes_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

constexpr int64_t kSamples = 48;
constexpr int64_t kSide = 40;  // 4800 bytes: more than a page of memory

std::string pixels_file() {
  TestBeton spec;
  spec.page_size = 8192;
  spec.fields = {{"image", 2, {}, ""}, {"label", 1, {}, ""}};
  for (int64_t i = 0; i < kSamples; ++i) {
    spec.rows.push_back({raw_image(kSide, kSide, static_cast<int>(i)), i});
  }
  return beton_bytes(spec).file;
}

/// The samples whose bytes end before `cut`.
std::set<int64_t> samples_before(const BetonFile& file, uint64_t cut) {
  std::set<int64_t> samples;
  for (int64_t i = 0; i < file.samples(); ++i) {
    const auto bytes = file.image(i, 0).bytes;
    const auto end = static_cast<uint64_t>(bytes.data() - file.mapping().bytes().data());
    if (end + bytes.size() <= cut) samples.insert(i);
  }
  return samples;
}

struct Cut {
  std::string path;
  std::shared_ptr<BetonSource> source;
  std::unique_ptr<Loader> loader;
  std::set<int64_t> left;

  /// Reads a batch, then cuts the file to a half.
  Cut(const TemporaryFolder& folder, OnBadSample on_bad_sample, int64_t workers)
      : path(folder / "set.beton") {
    write_file(path, pixels_file());
    source = std::make_shared<BetonSource>(path, 3);
    const ImageLoaderOptions options{.transform = {.size = {kSide, kSide}},
                                     .normalization = {{0, 0, 0}, {1, 1, 1}},
                                     .order = OrderKind::random,
                                     .training = true};
    loader = make_image_loader(
        source, options,
        {.batch_size = 12, .num_workers = workers, .on_bad_sample = on_bad_sample});
    loader->start(0, 0, {});
    CHECK(loader->next()->target.classes.numel() == 12);
    const uint64_t half = fs::file_size(path) / 2;
    left = samples_before(source->file(), half);
    fs::resize_file(path, half);
  }

  /// The labels of an epoch, whose pixels are checked.
  std::vector<int64_t> epoch() {
    std::vector<int64_t> labels;
    while (const auto batch = loader->next()) {
      const auto one = plain(*batch);
      constexpr size_t kBytes = kSide * kSide * 3;
      for (size_t i = 0; i < one.classes.size(); ++i) {
        const auto image = raw_image(kSide, kSide, static_cast<int>(one.classes[i]));
        CHECK((one.pixels.substr(i * kBytes, kBytes) == image.bytes));
        labels.push_back(one.classes[i]);
      }
    }
    return labels;
  }
};

}  // namespace

TEST_CASE("a .beton file cut off while it is read: its samples are bad ones", "[data]") {
  log::quiet();
  for (const int64_t workers : {0, 2}) {
    INFO(workers << " workers");
    const TemporaryFolder folder;
    {
      Cut cut(folder, OnBadSample::error, workers);
      CHECK(cut.left.size() > 15);
      CHECK(cut.left.size() < 25);
      const auto read = [&] { cut.epoch(), cut.epoch(); };
      CHECK_THROWS_WITH(read(), Contains(cut.path + ", sample ") && Contains("was cut off"));
    }
    {
      Cut cut(folder, OnBadSample::skip, workers);
      cut.epoch();
      const auto labels = cut.epoch();
      CHECK(labels.size() == cut.left.size());
      CHECK(std::set(labels.begin(), labels.end()) == cut.left);
    }
    Cut cut(folder, OnBadSample::replace, workers);
    cut.epoch();
    const auto labels = cut.epoch();
    CHECK(labels.size() == kSamples);
    for (const int64_t label : labels) CHECK(cut.left.contains(label));
  }
}

TEST_CASE("a cut .beton file of JPEGs is told of as such, and copies leave its samples out",
          "[data]") {
  log::quiet();
  const TemporaryFolder folder;
  TestBeton spec;
  spec.page_size = 65536;
  spec.fields = {{"image", 2, {}, ""}, {"label", 1, {}, ""}};
  for (int64_t i = 0; i < 8; ++i) {
    const auto jpeg = make_jpeg(make_picture(120, 160));
    spec.rows.push_back({TestImage{0, 160, 120, std::string(jpeg.begin(), jpeg.end())}, i});
  }
  const std::string path = folder / "set.beton";
  write_file(path, beton_bytes(spec).file);
  const BetonSource source(path, 3);
  ReadScratch scratch;
  const StoredImage image = source.open(7, scratch);
  fs::resize_file(path, fs::file_size(path) / 4);
  const JpegRequest whole{.region = {0, 0, 120, 160}};
  const auto decode = [&] {
    return use_image(image, [&] { return read_part(image, whole, 3, scratch).whole.height; });
  };
  CHECK_THROWS_WITH(decode(), Contains("was cut off"));
  CHECK_THROWS_WITH(source.open(7, scratch), Contains("was cut off"));

  write_file(path, pixels_file());
  const BetonSource pixels(path, 3);
  const uint64_t half = fs::file_size(path) / 2;
  const auto left = samples_before(pixels.file(), half);
  fs::resize_file(path, half);
  WriteOptions options;
  options.pack.mode = WriteMode::raw;
  options.on_bad_sample = OnBadSample::skip;
  const auto report = write_beton(pixels, folder / "copy.beton", options);
  CHECK(report.rows == static_cast<int64_t>(left.size()));
  REQUIRE_FALSE(report.bad.empty());
  CHECK_THAT(report.bad[0].second, Contains("was cut off"));
}

}  // namespace composer::lost_bytes_test
