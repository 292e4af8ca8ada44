// Data sets of stores: the batches of the same files on a disk.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "base/error.h"
#include "base/remote/cache_folder.h"
#include "base/remote/listing.h"
#include "data/batches/image_loader.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/remote_folder.h"
#include "data/files/file_lock.h"
#include "nn/network/batch.h"
#include "tests/data/errors.h"
#include "tests/data/eventually.h"
#include "tests/data/fake_sources.h"
#include "tests/data/photos.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/fake_store.h"
#include "tests/remote/memory_store.h"

namespace composer::remote_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

constexpr uint64_t kPage = 2 << 20;

/// 240 images of 30 KB, some of them JPEG, in four pages.
void write_set(const fs::path& path, uint64_t seed = 1) {
  std::vector<Image> images;
  for (int i = 0; i < 240; ++i)
    images.push_back(make_picture(90 + static_cast<int64_t>((seed + i) % 20), 100));
  WriteOptions options = options_of(WriteMode::proportion);
  options.pack.compress_probability = 0.2;
  options.pack.seed = seed;
  options.page_size = kPage;
  write_beton(FakePixels(images), path, options);
}

ImageLoaderOptions training(OrderKind order) {
  return {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {24, 24}},
          .augmentations = {},
          .normalization = {{0, 0, 0}, {1, 1, 1}},
          .order = order,
          .training = true,
          .window_pages = 2};
}

LoaderOptions common(int64_t rank = 0, int64_t ranks = 1) {
  return {.batch_size = 16,
          .seed = 5,
          .num_workers = 3,
          .crop_index = "off",
          .rank = rank,
          .world_size = ranks};
}

std::vector<PlainBatch> epochs(std::shared_ptr<Source> source, OrderKind order,
                               const LoaderOptions& options = common(), int64_t from_batch = 0) {
  const auto loader = make_image_loader(std::move(source), training(order), options);
  loader->start(0, from_batch);
  auto batches = rest_of_epoch(*loader);
  for (auto& batch : rest_of_epoch(*loader)) batches.push_back(std::move(batch));
  return batches;
}

std::vector<uint8_t> bytes_of(const fs::path& path) {
  const std::string text = read_bytes(path);
  return {text.begin(), text.end()};
}

/// A .beton file on the disk, and the same in a store.
struct Fixture {
  explicit Fixture(uint64_t limit = 0) {
    write_set(local());
    store->set("sets/a.beton", bytes_of(local()));
    folder = std::make_shared<CacheFolder>(CacheOptions{disk / "cache", limit});
  }

  std::string local() const { return disk / "a.beton"; }
  std::shared_ptr<Source> open_local() const { return std::make_shared<BetonSource>(local(), 3); }
  std::shared_ptr<Source> open_remote() const {
    const RemotePath path("s3://bucket/sets/a.beton");
    return std::make_shared<BetonSource>(
        std::make_unique<const BetonFile>(
            folder->open(composer::bytes_of(store, path, *store->stat(path.key())))),
        3);
  }

  TemporaryFolder disk;
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<CacheFolder> folder;
};

/// An S3-compatible server, which all s3:// paths lead to.
struct ServerFixture {
  ServerFixture() {
    environment.set("AWS_ENDPOINT_URL", server.url());
    environment.set("AWS_REGION", "us-east-1");
    environment.set_keys();
    environment.set("XDG_CACHE_HOME", disk / "cache");
  }

  void put_files(const fs::path& folder, const std::string& prefix) {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        server.put(prefix + fs::relative(entry.path(), folder).string(),
                   read_bytes(entry.path().string()));
  }

  AwsEnvironment environment;
  TemporaryFolder disk;
  MemoryStore server;
};

FolderParams folder_params(const std::string& datadir, bool is_train = true) {
  FolderParams params;
  params.datadir = datadir;
  params.is_train = is_train;
  params.crop_size = 24;
  params.drop_last = false;
  return params;
}

std::vector<PlainBatch> epoch_of(const FolderParams& params, const LoaderOptions& options) {
  return rest_of_epoch(*ImageFolderDataset(params).open(options));
}

}  // namespace

TEST_CASE("batches of a remote .beton file are those of the local one", "[remote]") {
  const Fixture f;
  for (const auto order : {OrderKind::sequential, OrderKind::random, OrderKind::quasi_random}) {
    const auto wanted = epochs(f.open_local(), order);
    CHECK(wanted.size() == 30);
    CHECK(epochs(f.open_remote(), order) == wanted);
    for (const int64_t rank : {0, 1})
      CHECK(epochs(f.open_remote(), order, common(rank, 2)) ==
            epochs(f.open_local(), order, common(rank, 2)));
  }
  CHECK(f.store->read_bytes <= bytes_of(f.local()).size());  // each byte once, for all of these
}

TEST_CASE("a loader without threads reads what it needs of a remote file", "[remote]") {
  const Fixture f;
  auto options = common();
  options.num_workers = 0;
  CHECK(epochs(f.open_remote(), OrderKind::random, options) ==
        epochs(f.open_local(), OrderKind::random));
}

TEST_CASE("a remote file goes on where the cache and the run ended", "[remote]") {
  Fixture f;
  const auto wanted = epochs(f.open_local(), OrderKind::random, common(), 7);
  {
    const auto loader = make_image_loader(f.open_remote(), training(OrderKind::random), common());
    for (int i = 0; i < 7; ++i) loader->next();
  }
  f.folder = std::make_shared<CacheFolder>(CacheOptions{f.disk / "cache"});
  CHECK(epochs(f.open_remote(), OrderKind::random, common(), 7) == wanted);
}

TEST_CASE("a remote file larger than the cache gives the same batches", "[remote]") {
  for (const auto order : {OrderKind::random, OrderKind::quasi_random}) {
    const Fixture f(3 << 20);
    CHECK(epochs(f.open_remote(), order) == epochs(f.open_local(), order));
    CHECK(f.folder->used() <= 3 << 20);
    CHECK(f.store->read_bytes > bytes_of(f.local()).size());
  }
}

TEST_CASE("two loaders share what one of them fetched, and the room", "[remote]") {
  const Fixture f(4 << 20);
  const auto wanted = epochs(f.open_local(), OrderKind::random);
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back(
          [&] { good += epochs(f.open_remote(), OrderKind::random) == wanted ? 1 : 0; });
  }
  CHECK(good == 2);
}

TEST_CASE("many requests of a remote file are on their way at once", "[remote]") {
  Fixture f;
  std::atomic<int> now = 0, most = 0;
  std::atomic<bool> slow = false;
  f.store->before_read = [&](const std::string&, uint64_t, uint64_t) {
    const int at_once = ++now;
    for (int seen = most; at_once > seen && !most.compare_exchange_weak(seen, at_once);) {
    }
    if (slow) eventually([&] { return most >= 6; });
    --now;
  };
  const auto source = f.open_remote();
  slow = true;
  auto options = training(OrderKind::sequential);
  options.rows = "0,30,60,90,120,150,180,210,15,45,75,105,135,165,195,225";
  const auto loader = make_image_loader(source, options, common());
  loader->next();
  CHECK(most >= 6);  // more than the loader has threads
}

TEST_CASE("a remote file that changes ends the run, and is named", "[remote]") {
  for (const auto on_bad_sample : {OnBadSample::error, OnBadSample::skip}) {
    Fixture f(1 << 20);
    auto options = common();
    options.on_bad_sample = on_bad_sample;
    const auto loader = make_image_loader(f.open_remote(), training(OrderKind::random), options);
    loader->next();
    f.store->set("sets/a.beton", bytes_of(f.local()), "\"2\"");
    try {
      while (loader->next()) {
      }
      FAIL("went on");
    } catch (const RunError& error) {
      CHECK_THAT(error.what(), Contains("sets/a.beton: has changed"));
      CHECK_THAT(error.what(), !Contains("on_bad_sample"));
    }
  }
}

TEST_CASE("a store that fails is no bad sample", "[remote]") {
  for (const auto on_bad_sample : {OnBadSample::skip, OnBadSample::replace}) {
    Fixture f;
    auto options = common();
    options.on_bad_sample = on_bad_sample;
    const auto source = f.open_remote();
    f.store->before_read = [](const std::string& key, uint64_t, uint64_t) {
      throw RunError("s3://bucket/" + key + ": 503 Slow Down, ten times");
    };
    const auto loader = make_image_loader(source, training(OrderKind::random), options);
    CHECK_THROWS_WITH(loader->next(), "s3://bucket/sets/a.beton: 503 Slow Down, ten times");
  }
}

TEST_CASE("damage within a remote file is a bad sample as in a local one", "[remote]") {
  Fixture f;
  auto bytes = bytes_of(f.local());
  std::fill(bytes.begin() + kPage + 4096, bytes.begin() + kPage + (64 << 10), uint8_t{0xFF});
  f.store->set("sets/a.beton", bytes, "\"2\"");
  std::ofstream(f.local(), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  auto options = common();
  options.on_bad_sample = OnBadSample::skip;
  CHECK(epochs(f.open_remote(), OrderKind::sequential, options) ==
        epochs(f.open_local(), OrderKind::sequential, options));
}

TEST_CASE("what is no .beton file is told of a remote one", "[remote]") {
  Fixture f;
  auto cut = bytes_of(f.local());
  cut.resize(cut.size() / 2);
  f.store->set("sets/a.beton", cut, "\"2\"");
  CHECK_THROWS_WITH(f.open_remote(), Contains("s3://bucket/sets/a.beton: cut off"));
  f.store->set("sets/a.beton", {}, "\"3\"");
  CHECK_THROWS_WITH(f.open_remote(), Contains("no .beton file"));
}

TEST_CASE("a remote .beton file is read over HTTP, through failures", "[remote]") {
  ServerFixture f;
  const std::string local = f.disk / "a.beton";
  write_set(local);
  f.server.put("sets/a.beton", read_bytes(local));
  std::atomic<int> requests = 0, failed = 0;
  f.server.set_interference([&](const ServerRequest&) -> std::optional<ServerReply> {
    if (++requests % 20 != 7) return std::nullopt;
    ++failed;
    return failed % 2 == 0 ? error_reply(503, "SlowDown", "please reduce your request rate")
                           : ServerReply{.no_answer = true};
  });
  const RemoteOptions remote{.cache_limit = 3 << 20};
  auto file = std::make_unique<const BetonFile>("s3://bucket/sets/a.beton", remote);
  CHECK(epochs(std::make_shared<BetonSource>(std::move(file), 3), OrderKind::random) ==
        epochs(std::make_shared<BetonSource>(local, 3), OrderKind::random));
  CHECK(failed > 0);
  CHECK_THROWS_WITH(BetonSource("s3://bucket/sets/b.beton", 3),
                    "s3://bucket/sets/b.beton: there is no such object");
}

TEST_CASE("the crop index of a remote file is kept in the cache", "[remote]") {
  ServerFixture f;
  const std::string local = f.disk / "a.beton", remote = "s3://bucket/sets/a.beton";
  write_set(local);
  f.server.put("sets/a.beton", read_bytes(local));
  auto options = common();
  const auto wanted = epochs(std::make_shared<BetonSource>(local, 3), OrderKind::random);
  options.crop_index = "cache";
  options.index_dir = f.disk / "indices";
  CHECK(epochs(std::make_shared<BetonSource>(remote, 3), OrderKind::random, options) == wanted);
  CHECK_FALSE(fs::is_empty(f.disk / "indices"));
  CHECK(epochs(std::make_shared<BetonSource>(remote, 3), OrderKind::random, options) == wanted);
  options.crop_index = "beside", options.index_dir = "";
  CHECK_THROWS_WITH(epochs(std::make_shared<BetonSource>(remote, 3), OrderKind::random, options),
                    Contains("crop_index: beside needs a local file"));
}

TEST_CASE("a recipe's .beton file may be remote, and copied whole", "[remote]") {
  ServerFixture f;
  const std::string local = f.disk / "a.beton";
  write_set(local);
  f.server.put("sets/a.beton", read_bytes(local));
  FfcvParams params{.use_ffcv = true, .ffcv_dir = "s3://bucket/sets", .ffcv_dest = "a.beton"};
  const auto original = []() -> std::shared_ptr<Source> { throw std::logic_error("not asked"); };
  const auto wanted = epochs(std::make_shared<BetonSource>(local, 3), OrderKind::random);
  CHECK(epochs(params.open(3, original, common()), OrderKind::random) == wanted);
  CHECK_THROWS_WITH(params.num_classes(),
                    Contains("s3://bucket/sets/a.beton, sample 1: has the class -1"));
  params.ffcv_local_dir = f.disk / "near";
  CHECK(epochs(params.open(3, original, common()), OrderKind::random) == wanted);
  CHECK(read_bytes(f.disk / "near/a.beton") == read_bytes(local));
  const size_t before = f.server.server().requests().size();
  params.open(3, original, common());
  CHECK(f.server.server().requests().size() <= before + 2);  // not again
  write_set(local, 2);
  f.server.put("sets/a.beton", read_bytes(local));
  params.open(3, original, common());
  CHECK(read_bytes(f.disk / "near/a.beton") == read_bytes(local));
  params.ffcv_dest = "none.beton", params.ffcv_write_dataset = true;
  CHECK_THROWS_WITH(params.open(3, original, common()),
                    Contains("there is no file 's3://bucket/sets/none.beton'"));
  CHECK(params.num_classes() == std::nullopt);
}

TEST_CASE("one process copies a .beton file behind a signed address", "[remote]") {
  ServerFixture f;
  write_set(f.disk / "a.beton");
  f.server.put("sets/a.beton", read_bytes(f.disk / "a.beton"));
  const FfcvParams params{.use_ffcv = true,
                          .ffcv_dir = f.server.url() + "/bucket/sets?token=secret",
                          .ffcv_dest = "a.beton",
                          .ffcv_local_dir = f.disk / "near"};
  fs::create_directories(f.disk / "near");
  const fs::path name = fs::canonical(f.disk / "near") / "a.beton.lock";
  auto lock = std::make_unique<FileLock>(name, "copies it too");
  const auto holders_and_waiters = [&] {
    int count = 0;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
      count += fs::read_symlink(entry.path(), gone) == name ? 1 : 0;
    return count;
  };
  std::jthread other([&] {
    params.open(
        3, []() -> std::shared_ptr<Source> { throw std::logic_error("asked"); }, common());
  });
  const bool waits = eventually([&] { return holders_and_waiters() == 2; });
  lock.reset();
  other.join();
  CHECK(waits);
  CHECK(read_bytes(f.disk / "near/a.beton") == read_bytes(f.disk / "a.beton"));
}

TEST_CASE("batches of a remote folder are those of the local one", "[remote]") {
  ServerFixture f;
  const fs::path local = f.disk / "photos";
  draw_photos(local / "train", 60, [](int i) { return 40 + i % 7; });
  draw_photos(local / "val", 20, [](int) { return 40; });
  write_file(local / "train/0/notes.txt", "no image");
  f.put_files(local, "p/photos/");
  f.server.put("p/photos-too/train/5/x.jpg", "another folder");
  const std::string remote = "s3://bucket/p/photos";
  CHECK(folder_classes(remote) == folder_classes(local));
  for (const bool is_train : {true, false})
    for (const int64_t rank : {0, 1}) {
      const auto wanted = epoch_of(folder_params(local, is_train), common(rank, 2));
      CHECK(wanted.size() > 0);
      CHECK(epoch_of(folder_params(remote, is_train), common(rank, 2)) == wanted);
      const size_t before = f.server.server().requests().size();
      CHECK(epoch_of(folder_params(remote + "/", is_train), common(rank, 2)) == wanted);
      // Another name: listed and read again, a request an image at most.
      CHECK(f.server.server().requests().size() <= before + 1 + 30);
    }
}

TEST_CASE("a manifest names the files of a web server", "[remote]") {
  ServerFixture f;
  const fs::path local = f.disk / "photos";
  draw_photos(local, 24, [](int i) { return 40 + i % 7; });
  f.put_files(local, "p/");
  std::string list = "# all\r\n\r\n";
  for (int i = 0; i < 24; ++i)
    list += std::to_string(i % 4) + "/" + std::to_string(i) + ".jpg" + (i % 2 ? "\r\n" : "\n");
  f.server.put("p/all.txt", list);
  const std::string remote = f.server.url() + "/bucket/p/all.txt";
  CHECK(folder_classes(remote) == folder_classes(local));
  CHECK(epoch_of(folder_params(remote), common()) == epoch_of(folder_params(local), common()));
  f.server.put("p/wrong.txt", "0/0.jpg\n../x.jpg\n");
  CHECK_THROWS_WITH(folder_classes(f.server.url() + "/bucket/p/wrong.txt"),
                    Contains("wrong.txt, line 2: '../x.jpg' is no path below"));
  f.server.put("p/more.txt", "0/0.jpg\n0/missing.jpg\n");
  CHECK_THROWS_WITH(folder_classes(f.server.url() + "/bucket/p/more.txt"),
                    Contains("0/missing.jpg: there is no such object"));
  CHECK_THROWS_WITH(folder_classes(f.server.url() + "/bucket/p/"), Contains("name a manifest"));
}

TEST_CASE("a signed manifest's files are asked for with its newest signature", "[remote]") {
  ServerFixture f;
  const fs::path local = f.disk / "photos";
  draw_photos(local, 8, [](int) { return 40; });
  f.put_files(local, "p/");
  std::string list;
  for (int i = 0; i < 8; ++i) list += std::to_string(i % 4) + "/" + std::to_string(i) + ".jpg\n";
  f.server.put("p/all.txt", list);
  std::atomic<int> valid = 1, read = 0;
  f.server.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method == "GET" && request.path.ends_with(".jpg")) ++read;
    if (request.parameter("token") == "secret" + std::to_string(valid)) return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const auto wanted = epoch_of(folder_params(local), common());
  for (; valid <= 2; ++valid) {
    const std::string query = "?token=secret" + std::to_string(valid);
    CHECK(epoch_of(folder_params(f.server.url() + "/bucket/p/all.txt" + query), common()) ==
          wanted);
  }
  CHECK(read == 8);  // the cache knows them by either
  for (const auto& entry : fs::recursive_directory_iterator(f.disk.path()))
    if (entry.is_regular_file())
      CHECK(read_bytes(entry.path()).find("secret") == std::string::npos);
}

TEST_CASE("what of a manifest's query is about it alone does not go to its files", "[remote]") {
  ServerFixture f;
  f.server.put("p/all.txt", "0/a.jpg\n");
  f.server.put("p/0/a.jpg", "a");
  std::string asked;
  f.server.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (!request.path.ends_with("a.jpg")) return std::nullopt;
    asked.clear();
    for (const char* name : {"X-Goog-Signature", "x-amz-signature", "Signature", "Key-Pair-Id",
                             "Policy", "sig", "sr", "versionId", "token"})
      if (const auto value = request.parameter(name); !value.empty()) asked += name + ("=" + value);
    return std::nullopt;
  });
  const auto asked_with = [&](const std::string& query) {
    const CacheFolder cache(
        {.folder = f.disk / "caches" / cache_name(query.substr(1)), .limit = 0});
    const RemotePath path(f.server.url() + "/bucket/p/all.txt" + query);
    list_files(open_store(path), path, cache);
    return asked;
  };
  for (const char* query : {"?X-Goog-Signature=1", "?x-amz-signature=1",
                            "?AWSAccessKeyId=k&Signature=1", "?GoogleAccessId=k&Signature=1",
                            "?Expires=9&Signature=1&Key-Pair-Id=k", "?sr=b&sig=1", "?versionId=1"})
    CHECK(asked_with(query).empty());
  CHECK(asked_with("?Policy=p&Signature=1&Key-Pair-Id=k") == "Signature=1Key-Pair-Id=kPolicy=p");
  CHECK(asked_with("?sr=c&sig=1") == "sig=1sr=c");
  CHECK(asked_with("?versionId=1&token=t") == "token=t");
}

TEST_CASE("what a remote folder lacks is told as of a local one", "[remote]") {
  ServerFixture f;
  f.server.put("a/val/0/x.jpg", "x");
  f.server.put("b/train/0/x.jpg", "x");
  f.server.put("b/train/1/notes.md", "x");
  f.server.put("b/val/2/x.jpg", "x");
  f.server.put("c/x.jpg", "x");
  f.server.put("d/0/x.heic", "x");
  const auto open = [](const std::string& datadir, bool is_train) {
    return open_class_folders(folder_params(datadir, is_train));
  };
  CHECK_THROWS_WITH(open("s3://bucket/a", true), Contains("has val/ but no train/"));
  CHECK_THROWS_WITH(open("s3://bucket/b", true),
                    Contains("s3://bucket/b/train/1: a class folder without images"));
  CHECK_THROWS_WITH(open("s3://bucket/b", false),
                    Contains("s3://bucket/b/val/2: train/ has no class of this name"));
  CHECK_THROWS_WITH(open("s3://bucket/c", true), Contains("has no class folders"));
  CHECK_THROWS_WITH(open("s3://bucket/d", true), Contains("x.heic: only "));
  CHECK_THROWS_WITH(open("s3://bucket/none", true), Contains("there are no files"));
  f.server.put("parts/Test/0/x.jpg", "x");
  f.server.put("parts/Train/0/x.jpg", "x");
  CHECK_THROWS_WITH(open("s3://bucket/parts", true), Contains("has the folders Test, Train, with"));
  for (const char* file :
       {"e/train/0/x.jpg", "e/train/y.jpg", "e/train/.z.jpg", "e/w.jpg", "e/train/0/notes.txt",
        "e/train/0/.keep", "e/train/0/._x.jpg", "e/train/0/Thumbs.db", "e/train/@eaDir/0/x.jpg",
        "e/train/0/@eaDir/x.jpg/t.jpg"})
    f.server.put(file, "x");
  Errors errors(f.disk / "errors");
  CHECK(open("s3://bucket/e", true)->size() == 1);
  CHECK_THAT(errors.text(), Contains("s3://bucket/e/train/' has 1 image beside") &&
                                Contains("s3://bucket/e/train/' has 1 file in its class folders "
                                         "without an image's ending, left out, such as "
                                         "0/notes.txt"));
}

TEST_CASE("a remote folder larger than the cache gives the same batches", "[remote]") {
  ServerFixture f;
  const fs::path local = f.disk / "photos";
  draw_photos(local, 60, [](int i) { return 60 + i % 7; });
  f.put_files(local, "p/");
  auto params = folder_params("s3://bucket/p");
  params.ffcv.remote.cache_limit = 60'000;
  auto options = common();
  for (int pass = 0; pass < 2; ++pass)
    CHECK(epoch_of(params, options) == epoch_of(folder_params(local), options));
  CHECK(CacheFolder::get(params.ffcv.remote)->used() <= 60'000);
}

TEST_CASE("image files of a store are opened by their names", "[remote]") {
  ServerFixture f;
  const fs::path local = f.disk / "photos";
  draw_photos(local, 6, [](int i) { return 40 + i % 7; });
  f.put_files(local, "p/");
  const Preparation preparation{.size = {24, 24}, .normalization = {{0, 0, 0}, {1, 1, 1}}};
  const auto batches = [&](const std::string& folder) {
    const auto loader =
        open_file_loader({folder + "/0/0.jpg", folder + "/1/5.jpg"}, preparation, common());
    return rest_of_epoch(*loader);
  };
  CHECK(batches("s3://bucket/p") == batches(local));
  CHECK_THROWS_WITH(batches("s3://bucket/q"), Contains("s3://bucket/q/0/0.jpg: there is no such"));
}

}  // namespace composer::remote_test
