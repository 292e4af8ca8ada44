// Sets whose images lie in shards, or that a list names, as loaders and recipes use them.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <initializer_list>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/remote/cache_folder.h"
#include "base/remote/leaving.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/webdataset.h"
#include "data/files/digest.h"
#include "data/shards/mds.h"
#include "data/shards/shard_files.h"
#include "data/shards/zstd_file.h"
#include "nn/network/batch.h"
#include "tests/data/errors.h"
#include "tests/data/fake_sources.h"
#include "tests/data/make_tar.h"
#include "tests/data/pack_zstd.h"
#include "tests/data/plain_batch.h"
#include "tests/data/same_photos.h"
#include "tests/files.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/fake_store.h"
#include "tests/remote/memory_store.h"

namespace composer::shard_sets_test {

using namespace composer::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::json;

namespace {

constexpr int kImages = SamePhotos::kImages, kClasses = SamePhotos::kClasses;

struct Sets : SamePhotos {
  using SamePhotos::SamePhotos;

  /// All four, changed by change(params).
  template <class Change>
  std::vector<std::unique_ptr<Dataset>> all(const Change& change) const {
    std::vector<std::unique_ptr<Dataset>> sets;
    const auto add = [&]<class Set>(typename Set::Params params) {
      params.crop_size = 16, params.drop_last = false;
      change(params);
      sets.push_back(std::make_unique<Set>(params));
    };
    const auto at = [&](auto params, const char* folder) {
      params.datadir = *this / folder;
      return params;
    };
    add.template operator()<ImageFolderDataset>(at(FolderParams(), "folders"));
    add.template operator()<WebDataset>(at(WebDatasetParams(), "tar"));
    add.template operator()<MdsDataset>(at(MdsParams(), "mds"));
    ImageListParams list;
    list.file = *this / "folders/list.csv";
    add.template operator()<ImageListDataset>(list);
    return sets;
  }
};

std::vector<PlainBatch> two_epochs(const Dataset& set, const LoaderOptions& options) {
  const auto loader = set.open(options);
  loader->start(0, 0);
  auto batches = rest_of_epoch(*loader);
  for (auto& batch : rest_of_epoch(*loader)) batches.push_back(std::move(batch));
  return batches;
}

}  // namespace

TEST_CASE("shards and lists give the batches that the same files in folders give", "[data]") {
  const Sets sets;
  const auto check = [&](const auto& change, const LoaderOptions& options) {
    const auto all = sets.all(change);
    const auto expected = two_epochs(*all[0], options);
    REQUIRE(expected.size() > 2);
    for (size_t i = 1; i < all.size(); ++i) {
      INFO(i);
      CHECK((two_epochs(*all[i], options) == expected));
      CHECK(all[i]->num_classes() == kClasses);
    }
  };
  const auto nothing = [](auto&) {};
  check(nothing, {.batch_size = 5, .seed = 3, .num_workers = 2});
  check(nothing, {.batch_size = 6, .num_workers = 2, .rank = 1, .world_size = 2});
  check(nothing, {.batch_size = 4, .num_workers = 0, .split = Split{.val = 0.3}});
  check([](auto& params) { params.shuffle = false, params.is_train = false; }, {.batch_size = 7});
  check([](auto& params) { params.rows = "0-9,20"; }, {.batch_size = 4});
  check([](auto& params) { params.order = "class_balanced"; }, {.batch_size = 5});
  check(nothing, {.batch_size = 5, .num_workers = 2, .cold = true});
}

TEST_CASE("samples of shards are read ahead, in windows of their pages too", "[data]") {
  const Sets sets;
  for (const auto& set : sets.all([](auto&) {})) {
    const auto open = [&](int64_t workers) {
      return two_epochs(*set, {.batch_size = 5, .num_workers = workers});
    };
    CHECK((open(3) == open(0)));
  }
  WebDatasetParams params;
  params.datadir = sets / "tar";
  const auto source = params.open("").source;
  for (const auto kind : {OrderKind::random, OrderKind::quasi_random}) {
    const auto batches = [&](const ReadAheadLimits& limits, int64_t workers) {
      const auto loader = make_image_loader(
          source,
          {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {16, 16}},
           .normalization = imagenet_normalization(),
           .order = kind,
           .training = true,
           .window_pages = 1,
           .read_ahead = limits},
          {.batch_size = 5, .num_workers = workers});
      loader->start(0, 0);
      return rest_of_epoch(*loader);
    };
    CHECK((batches({.quick = -1}, 2) == batches({}, 0)));
  }
}

TEST_CASE("a sample of shards that is damaged is a bad one, and named", "[data]") {
  const Sets sets;
  const std::string file = sets / "tar/s-1.tar";
  std::string bytes = read_bytes(file);
  bytes.replace(512, 8, "no image");
  write_file(file, bytes);
  WebDatasetParams params;
  params.datadir = sets / "tar", params.crop_size = 16, params.shuffle = false;
  params.drop_last = false;
  const WebDataset set(params);
  CHECK_THROWS_WITH(two_epochs(set, {.batch_size = 24}),
                    Contains("tar/s-1.tar: 0012.jpg: no image: none of JPEG"));
  const auto loader = set.open({.batch_size = 24, .on_bad_sample = OnBadSample::skip});
  loader->start(0, 0);
  CHECK(loader->next()->samples() == kImages - 1);

  const auto source = params.open("").source;
  fs::resize_file(file, 4096);
  ReadScratch scratch;
  CHECK_THROWS_WITH(source->open(kImages - 1, scratch), Contains("cut off while it was read"));
  CHECK(source->open(0, scratch).jpeg);
}

TEST_CASE("MosaicML's pixels are images", "[data]") {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& pil) {
    const auto bytes = mds_shard({{pil, mds_number(int64_t{1})}}, {false, true});
    write_file(folder / "shard.00000.mds", bytes);
    const json index{{"version", 2},
                     {"shards",
                      {{{"format", "mds"},
                        {"version", 2},
                        {"column_names", {"image", "label"}},
                        {"column_encodings", {"pil", "int"}},
                        {"column_sizes", {nullptr, 8}},
                        {"samples", 1},
                        {"raw_data", {{"basename", "shard.00000.mds"}, {"bytes", bytes.size()}}},
                        {"compression", nullptr}}}}};
    write_file(folder / "index.json", index.dump());
    MdsParams params;
    params.datadir = folder.path();
    const auto source = params.open("").source;
    ReadScratch scratch;
    const auto image = source->open(0, scratch);
    CHECK_FALSE(source->has_image_files());
    CHECK(image.channels == 3);
    CHECK(image.size == ImageSize{1, 2});
    return std::string(image.bytes.begin(), image.bytes.end());
  };
  CHECK(open(mds_pil(2, 1, "RGB", "abcdef")) == "abcdef");
  CHECK(open(mds_pil(2, 1, "L", "xy")) == "xxxyyy");
  CHECK(open(mds_pil(2, 1, "RGBA", "abcdefgh")) == "abcefg");
  CHECK_THROWS_WITH(open(mds_pil(2, 1, "P", "xy")), Contains("the mode 'P'; only RGB"));
  CHECK_THROWS_WITH(open(mds_pil(2, 2, "RGB", "xy")), Contains("do not fill an image of 2 x 2"));
  CHECK_THROWS_AS(open("short"), RunError);
}

TEST_CASE("sets of shards and lists say what is missing", "[data]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "train");
  WebDatasetParams tar;
  CHECK_THROWS_WITH(tar.open(""), Contains("datadir: missing"));
  tar.datadir = folder.path();
  CHECK_THROWS_WITH(tar.open(""), Contains("train' has no .tar files; expected"));
  tar.is_train = false;
  CHECK_THROWS_WITH(tar.open(""), Contains("has train/ but no val/"));
  tar.shards = "x-{0..1}.tar";
  CHECK_THROWS_WITH(tar.open(""), Contains("shards: there are no files") && Contains("x-1.tar"));
  CHECK_FALSE(WebDataset(tar).num_classes());
  MdsParams mds;
  mds.datadir = folder.path();
  CHECK_THROWS_WITH(mds.open(""), Contains("train' has no index.json"));
  ImageListParams list;
  CHECK_THROWS_WITH(list.open(""), Contains("file: missing"));
  list.file = "x.txt";
  CHECK_THROWS_WITH(list.open(""), Contains("ends in none of .csv, .tsv and .jsonl"));
  list.datadir = folder.path(), list.file = "x.csv";
  CHECK_THROWS_WITH(list.open(""), Contains("file: there is no file '") && Contains("x.csv'"));
  list.file = "s3://bucket/x.csv";
  CHECK_THROWS_WITH(list.open(""), Contains("file: 's3://bucket/x.csv' is remote; lists are read"));
}

TEST_CASE("sets of shards and lists say which file or folder has their samples", "[data]") {
  const Sets sets;
  const auto places = [&](const auto& change) {
    std::vector<std::string> all;
    for (const auto& set : sets.all(change)) all.push_back(set->location().path);
    return all;
  };
  CHECK(places([](auto& params) { params.is_train = false; }) ==
        std::vector<std::string>{sets / "folders", sets / "tar", sets / "mds",
                                 sets / "folders/list.csv"});
  CHECK(places([](auto& params) {
          params.ffcv.use_ffcv = true, params.ffcv.ffcv_dir = "/d", params.ffcv.ffcv_dest = "x";
        }) == std::vector<std::string>(4, "/d/x"));
  WebDatasetParams tar;
  tar.datadir = sets / "tar", tar.shards = "s-{0..1}.tar";
  CHECK(WebDataset(tar).location().path == sets / "tar/s-{0..1}.tar");
}

TEST_CASE("names of classes come from the list that is said to have them", "[data]") {
  const Sets sets;
  const auto params = [&](const std::string& name, const std::string& text) {
    write_file(sets / ("folders/" + name), text);
    ImageListParams list;
    list.datadir = sets / "folders", list.file = name;
    return list;
  };
  auto train = params("train.csv", "0/0000.jpg,cat\n1/0008.jpg,dog\n2/0016.jpg,ant\n");
  auto val = params("val.csv", "1/0009.jpg,dog\n");
  CHECK(ImageListDataset(train).class_names() == std::vector<std::string>{"ant", "cat", "dog"});
  CHECK(train.open("").source->label(0) == 1);
  CHECK(val.open("").source->label(0) == 0);
  val.classes = "train.csv";
  CHECK(val.open("").source->label(0) == 2);
  CHECK(ImageListDataset(val).class_names().size() == 3);
  CHECK(val.open("").source->name(0) == sets / "folders/1/0009.jpg");
  val.classes = "";
  CHECK(val.open("", OnBadSample::skip, {"cat", "dog", "ant"}).source->label(0) == 1);
  CHECK(ImageListDataset(val).finds_classes_by_name());

  train = params("numbers.csv", "0/0000.jpg,2\n1/0008.jpg,10\n");
  val = params("val_numbers.csv", "1/0009.jpg,10\n0/0001.jpg,2\n");
  val.classes = "numbers.csv";
  for (const int64_t i : {0, 1})
    CHECK(val.open("").source->label(i) == train.open("").source->label(1 - i));
  CHECK(ImageListDataset(val).num_classes() == ImageListDataset(train).num_classes());
}

TEST_CASE("a file that lies class by class is told of where it is read quasi-randomly", "[data]") {
  const TemporaryFolder folder;
  // 20 pages of 2 MiB, of 7 images each.
  std::vector<Image> images(140);
  for (auto& image : images) image.resize(300, 300, 3);
  struct Classes final : FakePixels {
    Classes(std::vector<Image> pixels, bool mixes) : FakePixels(std::move(pixels)), mixed(mixes) {}
    int64_t label(int64_t i) const override { return mixed ? i % 20 : i / 7; }
    bool mixed;
  };
  const auto told = [&](bool mixed, int64_t window) {
    auto options = options_of(WriteMode::raw);
    options.page_size = 2 << 20;
    write_beton(Classes(images, mixed), folder / "x.beton", options);
    Errors errors(folder / "errors");
    make_image_loader(std::make_shared<BetonSource>(folder / "x.beton", 3),
                      {.transform = {.size = {8, 8}},
                       .normalization = imagenet_normalization(),
                       .order = OrderKind::quasi_random,
                       .training = true,
                       .window_pages = window},
                      {.batch_size = 4});
    return errors.text();
  };
  CHECK_THAT(told(false, 2), Contains("mixes only 2 of 20 classes at a time") &&
                                 Contains("composer data write --shuffle SEED"));
  CHECK_THAT(told(true, 2), !Contains("at a time"));
  CHECK_THAT(told(false, 64), !Contains("at a time"));
}

TEST_CASE("windows of pages that do not fit into the memory are told of", "[data]") {
  const TemporaryFolder folder;
  struct Paged final : FakePixels {
    explicit Paged(uint64_t bytes) : FakePixels(pictures(40)), page_bytes(bytes) {}
    uint64_t paged_bytes() const override { return 40 * page_bytes; }
    int64_t page(int64_t i) const override { return i; }
    std::optional<Extent> extent(int64_t i, bool) const override {
      const uint64_t begin = static_cast<uint64_t>(i) * page_bytes;
      return Extent{0, begin, begin + page_bytes};
    }
    const uint64_t page_bytes;
  };
  const auto told = [&](uint64_t page_bytes, OrderKind order) {
    Errors errors(folder / "errors");
    make_image_loader(std::make_shared<Paged>(page_bytes),
                      {.transform = {.size = {8, 8}},
                       .normalization = imagenet_normalization(),
                       .order = order,
                       .training = true,
                       .window_pages = 2},
                      {.batch_size = 4});
    return errors.text();
  };
  // It is told once a process.
  CHECK_THAT(told(4096, OrderKind::quasi_random), !Contains("two windows"));
  CHECK_THAT(told(uint64_t{1} << 40, OrderKind::random), !Contains("two windows"));
  CHECK_THAT(told(uint64_t{1} << 40, OrderKind::quasi_random),
             Contains("order: quasi_random has two windows of pages in memory, 4398046 MB"));
}

namespace {

std::string sha256_of(const std::string& bytes) {
  return sha256_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

/// Sets in a store, and what programs know of it.
struct StoredSets : Sets {
  using Change = std::function<void(json& shard, std::string& packed)>;

  explicit StoredSets(int images = kImages) : Sets(images) {
    environment.set("AWS_ENDPOINT_URL", server.url());
    environment.set("AWS_REGION", "us-east-1");
    environment.set("XDG_CACHE_HOME", cache.path());
    environment.set_keys();
    for (const auto& entry : fs::recursive_directory_iterator(path()))
      if (entry.is_regular_file())
        server.put(fs::relative(entry.path(), path()).string(), read_bytes(entry.path()));
  }

  /// The MDS shards once more, compressed, in this folder of the store. change: the last one, and
  /// what the index says of it; without bytes it is not there.
  void pack(const std::string& folder, const Change& change = {}) {
    auto index = json::parse(*server.get("mds/index.json"));
    auto& shards = index["shards"];
    for (auto& shard : shards) {
      const std::string name = shard["raw_data"]["basename"];
      const std::string raw = *server.get("mds/" + name);
      std::string packed = pack_zstd(raw);
      shard["raw_data"]["hashes"] = {{"sha256", sha256_of(raw)}};
      shard["zip_data"] = {{"basename", name + ".zstd"},
                           {"bytes", packed.size()},
                           {"hashes", {{"sha256", sha256_of(packed)}}}};
      shard["compression"] = "zstd:7";
      if (change && &shard == &shards.back()) change(shard, packed);
      if (!packed.empty()) server.put(folder + "/" + name + ".zstd", packed);
    }
    server.put(folder + "/index.json", index.dump());
  }

  /// Requests for bytes of keys with this ending, since there were `before`.
  int64_t requests_of(const std::string& ending, size_t before = 0) {
    const auto all = server.server().requests();
    return std::count_if(all.begin() + static_cast<ptrdiff_t>(before), all.end(),
                         [&](const ServerRequest& request) {
                           return request.method == "GET" && request.path.ends_with(ending);
                         });
  }

  AwsEnvironment environment;
  TemporaryFolder cache;
  MemoryStore server;
};

template <class Set>
std::vector<PlainBatch> batches_of(typename Set::Params params, int64_t rank = 0) {
  params.crop_size = 16, params.drop_last = false;
  return two_epochs(Set(params),
                    {.batch_size = 5, .seed = 3, .num_workers = 2, .rank = rank, .world_size = 2});
}

/// limit: of the cache.
WebDatasetParams tars(const std::string& datadir, const std::string& shards = "",
                      uint64_t limit = 0) {
  WebDatasetParams params;
  params.ffcv.remote.cache_limit = limit;
  params.datadir = datadir, params.shards = shards;
  return params;
}

MdsParams mds(const std::string& datadir, uint64_t limit = 0) {
  MdsParams params;
  params.ffcv.remote.cache_limit = limit;
  params.datadir = datadir;
  return params;
}

}  // namespace

TEST_CASE("shards of a store give the batches of those on a disk", "[data][remote]") {
  const StoredSets f;
  const std::string web = f.server.url() + "/bucket";
  const uint64_t limit = GENERATE(0, 30'000);
  for (const int64_t rank : {0, 1}) {
    const auto tar = batches_of<WebDataset>(tars(f / "tar"), rank);
    REQUIRE(tar.size() > 2);
    CHECK((batches_of<WebDataset>(tars("s3://bucket/tar", "", limit), rank) == tar));
    CHECK((batches_of<WebDataset>(tars("", "s3://bucket/tar/s-{0..1}.tar", limit), rank) == tar));
    CHECK((batches_of<WebDataset>(tars(web + "/tar", "s-{0..1}.tar", limit), rank) == tar));
    const auto columns = batches_of<MdsDataset>(mds(f / "mds"), rank);
    CHECK((batches_of<MdsDataset>(mds("s3://bucket/mds", limit), rank) == columns));
    CHECK((batches_of<MdsDataset>(mds(web + "/mds/", limit), rank) == columns));
  }
  CHECK(WebDataset(tars("s3://bucket/tar", "", limit)).num_classes() == kClasses);
}

TEST_CASE("shards of a store count as remote until all of them are here", "[data][remote]") {
  const StoredSets f;
  const uint64_t limit = GENERATE(0, 30'000);
  const auto source = mds("s3://bucket/mds", limit).open("").source;
  for (int again = 0; again < 2; ++again) CHECK(source->is_remote() == (limit > 0));
  CHECK_FALSE(mds(f / "mds").open("").source->is_remote());
}

TEST_CASE("the shards whose samples are wanted last leave the cache first", "[data][remote]") {
  StoredSets f;
  const size_t bytes[] = {300'000, 500'000, 300'000};
  for (size_t i = 0; i < 3; ++i)
    f.server.put("large/s-" + std::to_string(i) + ".tar",
                 tar_member("0.jpg", photo(0) + std::string(bytes[i], '.')) +
                     tar_member("0.cls", "0") + tar_end());
  const auto source = tars("s3://bucket/large", "", 1'000'000).open("").source;
  ReadScratch scratch;
  const auto read = [&](std::initializer_list<int64_t> samples,
                        std::initializer_list<int64_t> wanted) {
    const auto following = source->follow([&](const auto& visit) {
      for (const int64_t sample : wanted) visit(sample);
    });
    for (const int64_t sample : samples) CHECK(source->open(sample, scratch).jpeg);
  };
  read({0, 1}, {0, 1, 0, 1, 2});
  read({2}, {2, 1, 2, 0});
  const size_t before = f.server.server().requests().size();
  read({1, 2}, {});
  CHECK(f.server.server().requests().size() == before);
}

TEST_CASE("another version of a store's shard is read anew", "[data][remote]") {
  StoredSets f;
  const auto before = batches_of<WebDataset>(tars("s3://bucket/tar"));
  const auto first = read_bytes(f / "tar/s-0.tar"), second = read_bytes(f / "tar/s-1.tar");
  f.server.put("tar/s-0.tar", second);
  f.server.put("tar/s-1.tar", first);
  write_file(f / "tar/s-0.tar", second);
  write_file(f / "tar/s-1.tar", first);
  const auto after = batches_of<WebDataset>(tars("s3://bucket/tar"));
  CHECK((after != before));
  CHECK((after == batches_of<WebDataset>(tars(f / "tar"))));
}

TEST_CASE("what a store's shards lack is told", "[data][remote]") {
  StoredSets f;
  CHECK_THROWS_WITH(batches_of<WebDataset>(tars("", "s3://bucket/tar/s-{0..3}.tar")),
                    Contains("shards: there are no files s3://bucket/tar/s-2.tar, "
                             "s3://bucket/tar/s-3.tar"));
  CHECK_THROWS_WITH(batches_of<WebDataset>(tars("s3://bucket/mds")),
                    Contains("datadir: 's3://bucket/mds' has no .tar files"));
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds("s3://bucket/tar")),
                    Contains("s3://bucket/tar/index.json: there is no such object"));
  f.server.remove("mds/shard.00001.mds");
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds("s3://bucket/mds")),
                    Contains("s3://bucket/mds/shard.00001.mds"));
  f.server.put("tar/s-1.tar", "no tar file");
  CHECK_THROWS_WITH(batches_of<WebDataset>(tars("s3://bucket/tar")),
                    Contains("s3://bucket/tar/s-1.tar: the tar file is cut off"));
}

TEST_CASE("a store's shards are compared with their hashes", "[data][remote]") {
  StoredSets f;
  auto index = json::parse(*f.server.get("mds/index.json"));
  const auto hash = [&](size_t i) -> json& { return index["shards"][i]["raw_data"]["hashes"]; };
  const std::string first = *f.server.get("mds/shard.00000.mds");
  hash(0)["sha256"] = sha256_hex({reinterpret_cast<const uint8_t*>(first.data()), first.size()});
  hash(1)["sha256"] = std::string(64, '0');
  f.server.put("mds/index.json", index.dump());
  const auto wrong = wrong_mds_hashes("s3://bucket/mds", {});
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0] == std::pair<std::string, std::string>("s3://bucket/mds/shard.00001.mds",
                                                        "its sha256 is not the one in the index"));
}

TEST_CASE("compressed shards of a store give the batches of raw ones on a disk", "[data][remote]") {
  StoredSets f;
  f.pack("packed");
  const uint64_t limit = GENERATE(0, 1, 60'000);
  const std::string web = f.server.url() + "/bucket";
  for (const int64_t rank : {0, 1}) {
    const auto columns = batches_of<MdsDataset>(mds(f / "mds"), rank);
    CHECK((batches_of<MdsDataset>(mds("s3://bucket/packed", limit), rank) == columns));
    CHECK((batches_of<MdsDataset>(mds(web + "/packed", limit), rank) == columns));
  }
  // Where somebody has unpacked one, that is read.
  const auto expected = batches_of<MdsDataset>(mds(f / "mds"));
  f.server.put("packed/shard.00001.mds", *f.server.get("mds/shard.00001.mds"));
  const size_t before = f.server.server().requests().size();
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/packed")) == expected));
  CHECK(f.requests_of("/shard.00001.mds", before) > 0);
  CHECK(f.requests_of("/shard.00001.mds.zstd", before) == 0);
  f.server.remove("packed/shard.00001.mds.zstd");
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/packed")) == expected));
}

TEST_CASE("compressed shards that have room are fetched once, the others again", "[data][remote]") {
  StoredSets f(96);
  f.pack("packed");
  const auto fetched = [&](uint64_t limit) {
    auto params = mds("s3://bucket/packed", limit);
    params.ffcv.remote.cache_dir = f.cache / ("remote" + std::to_string(limit));
    const size_t before = f.server.server().requests().size();
    const auto source = params.open("").source;
    ReadScratch scratch;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t i = 0; i < source->size(); ++i) CHECK(source->open(i, scratch).jpeg);
    return f.requests_of(".mds.zstd", before);
  };
  const int64_t once = fetched(0);
  CHECK(once == 2);
  const uint64_t all = CacheFolder::get({.cache_dir = f.cache / "remote0"})->used();
  const int64_t some = fetched(all - f.server.get("mds/shard.00000.mds")->size() / 2);
  CHECK(some > once);
  CHECK(some < fetched(1) / 4);
}

TEST_CASE("a compressed shard of a store that is damaged is fetched once", "[data][remote]") {
  StoredSets f;
  f.pack("damaged", [](json&, std::string& packed) { packed.back() ^= 1; });
  CHECK_THROWS_WITH(mds("s3://bucket/damaged").open(""), Contains("its sha256 is not"));
  CHECK(f.requests_of("damaged/shard.00001.mds.zstd") == 1);
}

TEST_CASE("a compressed object without room is fetched once by who reads all of it",
          "[data][remote]") {
  constexpr uint64_t kPiece = 1 << 20;
  StoredSets f;
  const auto raw = noise(20 * kPiece);
  f.server.put("a.zstd", pack_zstd({reinterpret_cast<const char*>(raw.data()), raw.size()}));
  const PartFile file("s3://bucket/a.zstd", {.cache_limit = 1}, PackedFile{.bytes = raw.size()});
  PartReader reader(file);
  bool good = true;
  for (uint64_t at = 0; at < raw.size(); at += kPiece)
    good = good && std::ranges::equal(reader.at(at, kPiece), std::span(raw).subspan(at, kPiece));
  CHECK(good);
  CHECK(f.requests_of("/a.zstd") < 6);  // 3 ranges of 8 MiB at most
}

TEST_CASE("a compressed object is fetched and unpacked once, and counts in the cache",
          "[data][remote]") {
  constexpr uint64_t kBytes = 20 << 20, kApart = 5'000'000;
  const auto raw = noise(kBytes);
  const auto store = std::make_shared<FakeStore>();
  const auto packed = pack_zstd({reinterpret_cast<const char*>(raw.data()), raw.size()});
  store->set("a.zstd", {packed.begin(), packed.end()});
  const TemporaryFolder disk;
  const auto folder = std::make_shared<CacheFolder>(CacheOptions{.folder = disk.path()});
  const RemotePath path("s3://bucket/a.zstd");
  const auto cache = folder->open(
      unpacked_bytes(bytes_of(store, path, *store->stat(path.key())), {.bytes = kBytes}));
  const auto reads_well = [&](uint64_t begin) {
    std::vector<uint8_t> part(1000);
    cache->read(begin, part);
    return std::ranges::equal(part, std::span(raw).subspan(begin, part.size()));
  };
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] { good += reads_well(i * kApart) ? 1 : 0; });
  }
  CHECK(good == 4);
  CHECK(store->reads == 3);  // of 8 MiB at most
  CHECK(store->read_bytes == packed.size());
  CHECK(cache->is_whole());
  CHECK(folder->used() >= kBytes);
  const std::vector<Evictable> whole{cache->evictable(no_needs(cache->object()))};
  CHECK(evict_blocks(whole, 1, 0) == kBytes);
  CHECK(reads_well(kApart));
  CHECK(store->reads == 6);
}

TEST_CASE("threads that fetch a compressed object leave with the one that wants it",
          "[data][remote]") {
  const auto raw = noise(12 << 20);
  const auto store = std::make_shared<FakeStore>();
  const auto packed = pack_zstd({reinterpret_cast<const char*>(raw.data()), raw.size()});
  store->set("a.zstd", {packed.begin(), packed.end()});
  std::latch both(2);
  std::atomic<int> asked = 0;
  std::atomic<bool> leaving = false;
  store->before_read = [&](const std::string&, uint64_t, uint64_t) {
    both.arrive_and_wait();
    leaving = true;
    asked += LeaveWhen::asked() ? 1 : 0;
  };
  const RemotePath path("s3://bucket/a.zstd");
  const auto remote =
      unpacked_bytes(bytes_of(store, path, *store->stat(path.key())), {.bytes = raw.size()});
  const LeaveWhen here(leaving);
  std::vector<uint8_t> all(raw.size());
  CHECK_THROWS_WITH(remote.fetch(0, all), Contains("nobody waits for it any more"));
  CHECK(asked == 2);
}

TEST_CASE("what is wrong with compressed shards of a store is named", "[data][remote]") {
  const auto problem = [](const StoredSets::Change& change) -> std::string {
    StoredSets f;
    f.pack("packed", change);
    try {
      batches_of<MdsDataset>(mds("s3://bucket/packed"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string object = "s3://bucket/packed/shard.00001.mds.zstd";
  CHECK(problem({}).empty());
  CHECK(problem([](json&, std::string& packed) { packed.back() ^= 1; }) ==
        object + ": damaged: its sha256 is not the one in the index");
  CHECK(problem([](json& shard, std::string& packed) {
          packed.resize(packed.size() - 3);
          shard["zip_data"]["bytes"] = packed.size();
          shard["zip_data"]["hashes"].clear();
        }) == object + ": cut off");
  CHECK(problem([](json& shard, std::string&) {
          shard["raw_data"]["hashes"]["sha256"] = std::string(64, '0');
        }) ==
        object + ": does not hold what the index says: its sha256 is not the one in the index");
  CHECK(problem([](json& shard, std::string&) { shard["raw_data"]["bytes"] = 100; }) ==
        object + ": holds more than the 100 bytes that the index says");
  CHECK_THAT(problem([](json& shard, std::string&) {
               shard["raw_data"]["bytes"] = shard["raw_data"]["bytes"].get<uint64_t>() + 1;
             }),
             StartsWith(object + ": holds ") && EndsWith(" bytes that the index says"));
  CHECK(problem([](json& shard, std::string&) {
          shard["raw_data"]["bytes"] = uint64_t{1} << 40;
        }) == object + ": the index says that it holds 1099511627776 bytes, more than a shard can");
  CHECK(problem([](json& shard, std::string&) { shard["zip_data"]["bytes"] = 5; }) ==
        object + ": there is no such object of 5 bytes, as the index says");
  CHECK(problem([](json&, std::string& packed) { packed.clear(); }) ==
        "datadir: there is no file " + object);
  CHECK(problem([](json& shard, std::string&) { shard["compression"] = "br"; }) ==
        object + ": compressed by br, which is not read: only zstd");
}

TEST_CASE("a store's compressed shards are compared with their hashes", "[data][remote]") {
  StoredSets f;
  f.pack("packed");
  CHECK(wrong_mds_hashes("s3://bucket/packed", {}).empty());
  auto index = json::parse(*f.server.get("packed/index.json"));
  index["shards"][1]["raw_data"]["hashes"]["sha256"] = std::string(64, '0');
  f.server.put("packed/index.json", index.dump());
  const auto wrong = wrong_mds_hashes("s3://bucket/packed", {});
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0] == std::pair<std::string, std::string>("s3://bucket/packed/shard.00001.mds.zstd",
                                                        "its sha256 is not the one in the index"));

  f.pack("damaged", [](json&, std::string& packed) { packed.back() ^= 1; });
  const auto damaged = wrong_mds_hashes("s3://bucket/damaged", {});
  REQUIRE(damaged.size() == 1);
  CHECK(damaged[0] ==
        std::pair<std::string, std::string>("s3://bucket/damaged/shard.00001.mds.zstd",
                                            "damaged: its sha256 is not the one in the index"));
  WrongFiles unreadable;
  const auto source = mds("s3://bucket/damaged").open_readable(unreadable);
  CHECK(unreadable == damaged);
  REQUIRE(source);
  CHECK(source->size() == kImages / 2);
}

TEST_CASE("compressed shards of a store that the cache has no room for are told of",
          "[data][remote]") {
  StoredSets f;
  f.pack("little");
  Errors errors(f / "errors");
  mds("s3://bucket/little", 1).open("");
  CHECK_THAT(errors.text(),
             Contains("remote.cache_limit: the compressed shards of s3://bucket/little/ hold"));
  auto params = mds("s3://bucket/little");
  CHECK(params.check().empty());
  params.local_dir = f / "unpacked";
  CHECK_THAT(params.check(), Contains("local_dir: a store's shards are unpacked below"));
}

TEST_CASE("shards behind a signed address are read, and no signature is kept", "[data][remote]") {
  StoredSets f;
  std::atomic<int> unsigned_requests = 0;
  f.server.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.parameter("token").starts_with("secret")) return std::nullopt;
    ++unsigned_requests;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const std::string web = f.server.url() + "/bucket";
  const auto tables = [&] {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(f.cache.path()))
      count += entry.path().extension() == ".table" ? 1 : 0;
    return count;
  };
  const auto tar = batches_of<WebDataset>(tars(f / "tar"));
  const auto columns = batches_of<MdsDataset>(mds(f / "mds"));
  const size_t before = tables();
  for (const std::string token : {"?token=secret1", "?token=secret2"}) {
    CHECK((batches_of<WebDataset>(tars("", web + "/tar/s-{0..1}.tar" + token)) == tar));
    CHECK((batches_of<WebDataset>(tars(web + "/tar" + token, "s-{0..1}.tar")) == tar));
    CHECK((batches_of<MdsDataset>(mds(web + "/mds" + token)) == columns));
  }
  CHECK(tables() == before + 2);
  CHECK(unsigned_requests == 0);
  for (const auto& entry : fs::recursive_directory_iterator(f.cache.path())) {
    INFO(entry.path());
    CHECK_THAT(entry.path().filename().string(), !Contains("secret"));
    if (entry.is_regular_file())
      CHECK(read_bytes(entry.path()).find("secret") == std::string::npos);
  }
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds(web + "/mds?***")),
                    Contains("give the whole address anew"));
  CHECK_THROWS_WITH(batches_of<WebDataset>(tars("", web + "/tar/s-0.tar?token={secret1,secret2}")),
                    Contains("would be one file") && !Contains("secret1"));
}

TEST_CASE("a shard that changes while a set is opened is never read by its old table",
          "[data][remote]") {
  std::vector<PlainBatch> changed;
  int requests = 1000;
  for (int change = 1; change <= requests; ++change) {
    CAPTURE(change, requests);
    StoredSets f;
    std::atomic<int> asked = 0;
    f.server.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
      if (request.method == "HEAD" && request.path.ends_with("s-1.tar") && ++asked == change)
        f.server.put("tar/s-1.tar", read_bytes(f / "tar/s-0.tar"));
      return std::nullopt;
    });
    try {
      const auto batches = batches_of<WebDataset>(tars("", "s3://bucket/tar/s-{0..1}.tar"));
      if (change == 1) changed = batches;
      CHECK((batches == changed));
    } catch (const std::exception& error) {
      CHECK_THAT(error.what(), Contains("changed"));
    }
    if (change == 1) requests = asked;
  }
  CHECK(requests >= 2);
}

TEST_CASE("names of shards are no part of an address", "[data][remote]") {
  StoredSets f;
  auto index = json::parse(*f.server.get("mds/index.json"));
  const std::string name = "a b?c%20#.mds";
  index["shards"][0]["raw_data"]["basename"] = name;
  f.server.put("odd/index.json", index.dump());
  f.server.put("odd/" + name, *f.server.get("mds/shard.00000.mds"));
  f.server.put("odd/shard.00001.mds", *f.server.get("mds/shard.00001.mds"));
  const auto expected = batches_of<MdsDataset>(mds(f / "mds"));
  CHECK((batches_of<MdsDataset>(mds(f.server.url() + "/bucket/odd")) == expected));
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/odd")) == expected));
}

TEST_CASE("a store that refuses what it has not has shards all the same", "[data][remote]") {
  StoredSets f;
  f.server.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.path.find("/mds/") != std::string::npos &&
        request.path.find("/train/") == std::string::npos)
      return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const auto expected = batches_of<MdsDataset>(mds(f / "mds"));
  Errors errors(f / "errors");
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/mds")) == expected));
  CHECK_THAT(errors.text(), Contains("s3://bucket/mds/train/index.json: ") && Contains("403") &&
                                Contains("s3://bucket/mds/index.json is read in its place"));
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds("s3://bucket/none")),
                    Contains("s3://bucket/none/train/index.json: ") && Contains("403"));
}

TEST_CASE("a store that refuses what it has not may have shards in either form", "[data][remote]") {
  StoredSets f;
  f.pack("packed");
  f.server.put("raw/index.json", *f.server.get("packed/index.json"));
  for (const std::string name : {"shard.00000.mds", "shard.00001.mds"})
    f.server.put("raw/" + name, *f.server.get("mds/" + name));
  f.server.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    const std::string folder = "/bucket/";
    if (request.path.starts_with(folder) && f.server.get(request.path.substr(folder.size())))
      return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const auto expected = batches_of<MdsDataset>(mds(f / "mds"));
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/raw")) == expected));
  CHECK((batches_of<MdsDataset>(mds("s3://bucket/packed")) == expected));
  f.server.remove("packed/shard.00001.mds.zstd");
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds("s3://bucket/packed")),
                    Contains("s3://bucket/packed/shard.00001.mds: ") && Contains("403"));
  f.pack("short", [](json&, std::string& packed) { packed.pop_back(); });
  CHECK_THROWS_WITH(batches_of<MdsDataset>(mds("s3://bucket/short")),
                    Contains("s3://bucket/short/shard.00001.mds.zstd: there is no such object of"));
}

TEST_CASE("hidden tar files of a store are no shards", "[data][remote]") {
  StoredSets f;
  f.server.put("tar/.s-2.tar", "not whole yet");
  CHECK(
      (batches_of<WebDataset>(tars("s3://bucket/tar")) == batches_of<WebDataset>(tars(f / "tar"))));
}

TEST_CASE("a .beton file is read without the shards that it was made of", "[data][remote]") {
  StoredSets f;
  const auto from_beton = [&](const std::string& datadir) {
    auto params = tars(datadir);
    params.ffcv.use_ffcv = true, params.ffcv.ffcv_write_dataset = true;
    params.ffcv.ffcv_dir = f.cache.path(), params.ffcv.ffcv_dest = "s.beton";
    return params;
  };
  const auto batches = batches_of<WebDataset>(from_beton(f / "tar"));
  const WebDataset set(from_beton("s3://bucket/tar"));
  CHECK(set.num_values() == 0);
  CHECK(set.num_classes() == kClasses);
  CHECK(set.class_names().empty());
  CHECK((batches_of<WebDataset>(from_beton("s3://bucket/tar")) == batches));
  CHECK(f.server.server().requests().empty());
}

TEST_CASE("what a store's set holds is asked for once", "[data][remote]") {
  StoredSets f;
  const WebDataset set(tars("s3://bucket/tar"));
  CHECK(set.num_values() == 0);
  const size_t requests = f.server.server().requests().size();
  CHECK(set.num_classes() == kClasses);
  CHECK(set.class_names().empty());
  CHECK(f.server.server().requests().size() == requests);
}

}  // namespace composer::shard_sets_test
