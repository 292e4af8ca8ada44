// What several ranks get of each data set, against what one gets.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/mnist.h"
#include "data/datasets/synthetic.h"
#include "nn/network/batch.h"
#include "tests/data/fake_sources.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::shares_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string noise(size_t bytes) {
  Random random(5, "test.shares", 0, 0);
  std::string made(bytes, '\0');
  for (auto& byte : made) byte = static_cast<char>(random.below(256));
  return made;
}

constexpr uint32_t images = 25;

void write_mnist(const TemporaryFolder& folder) {
  for (const std::string part : {"train", "t10k"}) {
    std::string labels = big_endian(0x801) + big_endian(images);
    for (uint32_t i = 0; i < images; ++i) labels += static_cast<char>(i % 10);
    write_file(folder / (part + "-images-idx3-ubyte"), big_endian(0x803) + big_endian(images) +
                                                           big_endian(28) + big_endian(28) +
                                                           noise(images * 784));
    write_file(folder / (part + "-labels-idx1-ubyte"), labels);
  }
}

void write_cifar(const TemporaryFolder& folder) {
  std::string records;
  for (uint32_t i = 0; i < 5; ++i) records += static_cast<char>(i) + noise(3072);
  for (int i = 1; i <= 5; ++i)
    write_file(folder / ("data_batch_" + std::to_string(i) + ".bin"), records);
  write_file(folder / "test_batch.bin", records + records);
}

std::string jpeg_of(uint32_t i) {
  const auto bytes = make_jpeg(make_picture(30 + i, 40 + i % 5));
  return {bytes.begin(), bytes.end()};
}

void write_folders(const TemporaryFolder& folder) {
  for (uint32_t i = 0; i < images; ++i)
    write_file(folder / ("c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg"),
               jpeg_of(i));
}

/// Every transform that a set can do to a sample.
template <class Transforms>
void ask_for_everything(Transforms& transforms) {
  transforms.brightness = transforms.contrast = transforms.saturation = 0.4;
  transforms.grayscale = transforms.random_erasing = 0.3;
  transforms.cutout = 6;
}

template <class Params>
Params common(Params params, bool is_train) {
  params.is_train = params.shuffle = is_train;
  params.drop_last = false;
  return params;
}

std::unique_ptr<Dataset> open_set(const std::string& name, bool is_train,
                                  const TemporaryFolder& folder) {
  if (name == "mnist") {
    MnistDataset::Params params;
    params.datadir = folder.path();
    return std::make_unique<MnistDataset>(common(params, is_train));
  }
  if (name == "cifar10") {
    Cifar10Dataset::Params params;
    params.datadir = folder.path();
    if (is_train) ask_for_everything(params.transforms);
    return std::make_unique<Cifar10Dataset>(common(params, is_train));
  }
  if (name == "synthetic") {
    SyntheticDataset::Params params;
    params.height = params.width = 8, params.samples = images;
    return std::make_unique<SyntheticDataset>(common(params, is_train));
  }
  FolderParams params;
  params.crop_size = 16;
  if (is_train) ask_for_everything(params.transforms);
  params.datadir = folder.path();
  if (name == "beton")
    params.ffcv = {.use_ffcv = true, .ffcv_dir = folder.path(), .ffcv_dest = "x"};
  if (name == "class_balanced") params.order = is_train ? "class_balanced" : "auto";
  return std::make_unique<ImageFolderDataset>(common(params, is_train));
}

void write_set(const std::string& name, const TemporaryFolder& folder) {
  if (name == "mnist") write_mnist(folder);
  if (name == "cifar10") write_cifar(folder);
  if (name == "image_folder" || name == "class_balanced") write_folders(folder);
  if (name == "beton") {
    FakeFiles files;
    for (uint32_t i = 0; i < images; ++i) files.add(make_jpeg(make_picture(30 + i, 40 + i % 5)));
    write_beton(files, folder / "x", options_of(WriteMode::keep));
  }
}

/// From batch 1 of epoch 1 to the end of epoch 2, a size plan on the way.
std::vector<PlainBatch> batches_of(const Dataset& set, int64_t batch_size, int64_t rank,
                                   int64_t ranks) {
  const auto loader = set.open({.batch_size = batch_size,
                                .seed = 17,
                                .num_workers = ranks - 1,
                                .crop_index = "off",
                                .rank = rank,
                                .world_size = ranks});
  const auto size = set.image_size();
  loader->start(1, 1, [size](int64_t batch) {
    return batch % 2 == 0 ? size : ImageSize{size.height / 2, size.width / 2};
  });
  auto batches = rest_of_epoch(*loader);
  for (auto& batch : rest_of_epoch(*loader)) batches.push_back(std::move(batch));
  return batches;
}

/// The batch that all ranks have together.
PlainBatch together(const std::vector<std::vector<PlainBatch>>& of_rank, size_t index) {
  PlainBatch whole{of_rank[0][index].shape, "", {}};
  for (const auto& batches : of_rank) {
    const auto& share = batches[index];
    whole.pixels += share.pixels;
    whole.classes.insert(whole.classes.end(), share.classes.begin(), share.classes.end());
    CHECK(share.shape[0] == std::ssize(share.classes));
  }
  whole.shape[0] = std::ssize(whole.classes);
  return whole;
}

}  // namespace

TEST_CASE("the ranks' shares of every set are the batches of one rank, byte for byte", "[data]") {
  const std::string name = GENERATE(as<std::string>(), "image_folder", "class_balanced", "cifar10",
                                    "beton", "synthetic", "mnist");
  const bool is_train = GENERATE(true, false);
  // The last batch has 4 samples; of the evaluation's batches of 6 it has one or less a rank.
  const int64_t batch_size = is_train ? 7 : 6;
  CAPTURE(name, is_train);
  const TemporaryFolder folder;
  write_set(name, folder);
  const auto set = open_set(name, is_train, folder);
  const auto whole = batches_of(*set, batch_size, 0, 1);
  REQUIRE(whole.size() > 2);
  for (const int64_t ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    std::vector<std::vector<PlainBatch>> of_rank;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      of_rank.push_back(batches_of(*set, batch_size, rank, ranks));
      REQUIRE(of_rank.back().size() == whole.size());
    }
    for (size_t b = 0; b < whole.size(); ++b) CHECK(together(of_rank, b) == whole[b]);
  }
}

TEST_CASE("a batch tells its rank's share, unless samples may be left out", "[data]") {
  const TemporaryFolder folder;
  write_folders(folder);
  const int64_t views = GENERATE(1, 2);
  ImageFolderDataset::Params params;
  params.datadir = folder.path(), params.crop_size = 16, params.views = views;
  const ImageFolderDataset set(common(params, /*is_train=*/true));
  std::vector<int64_t> ends(4);  // of the shares of the ranks before, in each batch
  for (int64_t rank = 0; rank < 3; ++rank) {
    LoaderOptions options{.batch_size = 7 * views, .crop_index = "off", .rank = rank};
    options.world_size = 3;
    const auto loader = set.open(options);
    for (size_t b = 0; const auto batch = loader->next(); ++b) {
      REQUIRE(batch->share);
      CHECK(batch->share->first == std::exchange(ends.at(b), ends.at(b) + batch->samples()));
      CHECK(batch->share->samples == (b < 3 ? 7 : 4) * views);
    }
    options.on_bad_sample = OnBadSample::skip;
    CHECK_FALSE(set.open(options)->next()->share);
  }
  const std::vector<int64_t> all{7 * views, 7 * views, 7 * views, 4 * views};
  CHECK(ends == all);
}

TEST_CASE("training batches of fewer samples than ranks are refused", "[data]") {
  SyntheticDataset::Params params;
  params.height = params.width = 8, params.samples = 25;
  const auto open = [&](bool drop_last, bool is_train, int64_t batch_size, int64_t ranks) {
    params.drop_last = drop_last, params.is_train = is_train;
    SyntheticDataset(params).open({.batch_size = batch_size, .rank = 0, .world_size = ranks});
  };
  CHECK_THROWS_WITH(open(true, true, 3, 4),
                    Contains("batches of 3 samples are too small for 4 shares") &&
                        Contains("train_batch_size at least 4"));
  CHECK_THROWS_WITH(
      open(false, true, 8, 2),
      Contains("last batch of an epoch has only 1 sample, ") && Contains("drop_last: true"));
  CHECK_NOTHROW(open(true, true, 8, 2));
  CHECK_NOTHROW(open(false, true, 8, 1));
  CHECK_NOTHROW(open(false, true, 23, 2));
  CHECK_NOTHROW(open(false, false, 3, 4));
}

TEST_CASE("of several ranks one writes the .beton file for all", "[data]") {
  const TemporaryFolder folder;
  const FfcvParams params{
      .use_ffcv = true, .ffcv_dir = folder.path(), .ffcv_dest = "x", .ffcv_write_dataset = true};
  std::atomic<int> written = 0, opened = 0;
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      const auto original = [&]() -> std::shared_ptr<Source> {
        ++written;
        return std::make_shared<FakePixels>(pictures(20));
      };
      const auto source = params.open(3, original, {.rank = rank, .world_size = 4});
      opened += source->size() == 20;
    });
  for (auto& rank : ranks) rank.join();
  CHECK(written == 1);
  CHECK(opened == 4);
}

}  // namespace composer::shares_test
