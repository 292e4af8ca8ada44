// Sets of one's own that give the bytes of image files.
#include "data/samples/coded_source.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "base/error.h"
#include "data/datasets/photo_dataset.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::coded_source_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

constexpr int64_t kPhotos = 20;

/// Sample 3 is no JPEG, 5 is to be turned.
std::vector<uint8_t> photo(int64_t index) {
  const Image picture = make_picture(40 + index % 5, 44);
  if (index == 3) {
    std::string file = "P6 44 43 255\n";
    file.append(picture.pixels.begin(), picture.pixels.begin() + 44 * 43 * 3);
    return {file.begin(), file.end()};
  }
  return make_jpeg(picture, {.orientation = index == 5 ? 6 : 0});
}

class OwnPhotos final : public CodedSource {
 public:
  explicit OwnPhotos(std::string file = {}, int64_t broken = -1)
      : file_(std::move(file)), broken_(broken) {
    for (int64_t i = 0; i < kPhotos; ++i) photos_.push_back(photo(i));
  }

  int64_t size() const override { return kPhotos; }
  int64_t label(int64_t index) const override { return 2 * index / kPhotos; }
  std::string name(int64_t index) const override { return "own photo " + std::to_string(index); }
  void read(int64_t index, std::vector<uint8_t>& bytes) const override {
    ++reads;
    if (index == broken_) throw RunError("it is lost");
    if (!bytes.empty()) throw std::logic_error("what a reader gets is not empty");
    const auto& all = photos_[static_cast<size_t>(index)];
    bytes.insert(bytes.end(), all.begin(), all.end());
  }
  fs::path indexed_path() const override { return file_; }

  mutable std::atomic<int> reads = 0;

 private:
  std::string file_;
  int64_t broken_;
  std::vector<std::vector<uint8_t>> photos_;
};

struct OwnParams : FolderParams {
  std::string file;
  int64_t broken = -1;

  OwnParams() {}
  OpenedSet open(const std::string&) const {
    return opened_set(std::make_shared<OwnPhotos>(file, broken));
  }
};

template <class Params>
Params shown(Params params = {}) {
  params.crop_size = 16, params.drop_last = false;
  return params;
}

FolderParams write_folders(const TemporaryFolder& folder) {
  for (int64_t i = 0; i < kPhotos; ++i) {
    const auto bytes = photo(i);
    const std::string name = std::to_string(2 * i / kPhotos) + "/" + std::to_string(100 + i);
    write_file(folder / (name + ".jpg"), {bytes.begin(), bytes.end()});
  }
  auto params = shown<FolderParams>();
  params.datadir = folder.path();
  return params;
}

std::vector<PlainBatch> epoch_from(const Dataset& set, const LoaderOptions& options,
                                   int64_t batch = 0) {
  const auto loader = set.open(options);
  loader->start(1, batch);
  return rest_of_epoch(*loader);
}

}  // namespace

TEST_CASE("a class that reads image files has what class folders have", "[data]") {
  const TemporaryFolder folder;
  const ImageFolderDataset folders(write_folders(folder));
  const PhotoDataset<OwnParams> own(shown<OwnParams>());
  CHECK(own.num_classes() == 2);
  for (const int64_t workers : {0, 1, 4}) {
    INFO(workers << " workers");
    const LoaderOptions options{.batch_size = 6, .seed = 5, .num_workers = workers};
    const auto expected = epoch_from(folders, options);
    REQUIRE(expected.size() == 4);
    CHECK((epoch_from(own, options) == expected));
    CHECK((epoch_from(own, options, 2) ==
           std::vector<PlainBatch>(expected.begin() + 2, expected.end())));
  }
  for (const int64_t rank : {0, 1}) {
    const LoaderOptions options{.batch_size = 6, .num_workers = 2, .rank = rank, .world_size = 2};
    CHECK((epoch_from(own, options) == epoch_from(folders, options)));
  }
  const LoaderOptions split{.batch_size = 3, .split = Split{.val = 0.3}};
  CHECK((epoch_from(own, split) == epoch_from(folders, split)));
}

TEST_CASE("what a class reads is read ahead, where there is room for it", "[data]") {
  const auto source = std::make_shared<OwnPhotos>();
  const auto batches = [&](const ReadAheadLimits& limits, int64_t workers) {
    const auto loader = make_image_loader(
        source,
        {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {16, 16}},
         .normalization = imagenet_normalization(),
         .order = OrderKind::random,
         .read_ahead = limits},
        {.batch_size = 5, .num_workers = workers});
    loader->start(0, 0);
    return rest_of_epoch(*loader);
  };
  const auto expected = batches({}, 0);
  CHECK(source->reads == kPhotos);
  CHECK((batches({.quick = -1}, 2) == expected));
  CHECK((batches({.bytes = 1, .quick = -1}, 2) == expected));

  std::vector<uint8_t> bytes;
  uint64_t asked = 0;
  const auto none = [&](uint64_t wanted) { return asked = wanted, false; };
  CHECK_THROWS_WITH(source->fetch(0, bytes, none), Contains("no room"));
  CHECK(asked == photo(0).size());
}

TEST_CASE("what a class cannot read is a bad sample, and named", "[data]") {
  auto params = shown<OwnParams>();
  params.broken = 7;
  const PhotoDataset<OwnParams> set(params);
  for (const int64_t workers : {0, 2}) {
    const LoaderOptions options{.batch_size = kPhotos, .num_workers = workers};
    CHECK_THROWS_WITH(epoch_from(set, options), Contains("own photo 7: it is lost"));
    auto skipping = options;
    skipping.on_bad_sample = OnBadSample::skip;
    CHECK(epoch_from(set, skipping).at(0).classes.size() == kPhotos - 1);
  }
}

TEST_CASE("crop indices are kept of a class's one file", "[data]") {
  const TemporaryFolder folder;
  auto params = shown<OwnParams>();
  params.file = (folder / "all.photos").string();
  write_file(params.file, "the file");
  const PhotoDataset<OwnParams> set(params);
  const LoaderOptions options{.batch_size = 5, .num_workers = 1, .crop_index = "beside"};
  const auto expected = epoch_from(set, options);
  const auto index = folder / "all.photos.index";
  REQUIRE(fs::exists(index));
  const IndexTable table(index, stamp_of(params.file));
  CHECK(table.find(0) != nullptr);
  CHECK(table.find(3) == nullptr);  // no JPEG
  CHECK((epoch_from(set, options) == expected));
}

}  // namespace composer::coded_source_test
