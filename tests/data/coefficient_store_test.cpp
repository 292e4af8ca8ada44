// What is kept of JPEGs' coefficients on a disk, and that it changes no batch.
#include "data/index/coefficient_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "tests/base/largest_file.h"
#include "tests/data/errors.h"
#include "tests/data/eventually.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::coefficient_store_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr FileStamp kSource{1000, 2000};
constexpr uint64_t kNoLimit = uint64_t{1} << 40;

Bytes bytes_of(uint64_t key, const char* what, size_t size) {
  Random random(key, what, 0, 0);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random.bits());
  return bytes;
}

Bytes table_of(uint64_t key) { return bytes_of(key, "table", 20 + key % 9); }
Bytes rows_of(uint64_t key) { return bytes_of(key, "rows", 700 + key * 131 % 2000); }

void keep(CoefficientStore& store, uint64_t key, const FileStamp& stamp = {}) {
  store.keep(key, stamp, table_of(key), rows_of(key));
}

/// Whether a stream is found. What is found must be its own.
bool has(CoefficientStore& store, uint64_t key, const FileStamp& stamp = {}) {
  const auto entry = store.find(key, stamp);
  if (!entry) return false;
  uint64_t place;
  std::memcpy(&place, entry->data(), sizeof place);
  CHECK((Bytes(entry->begin() + sizeof place, entry->end()) == table_of(key)));
  const Bytes expected = rows_of(key);
  Bytes rows(expected.size());
  CHECK(store.read(place, rows));
  CHECK((rows == expected));
  return true;
}

uint64_t found(CoefficientStore& store, uint64_t keys) {
  uint64_t count = 0;
  for (uint64_t key = 0; key < keys; ++key) count += has(store, key) ? 1 : 0;
  return count;
}

/// Two classes of photographs of many kinds, some of which have no coefficients to keep.
struct Photos : TemporaryFolder {
  Photos() {
    const JpegKind kinds[] = {{},
                              {.h_samp = 1, .v_samp = 1},
                              {.quality = 100},
                              {.quality = 100, .h_samp = 1, .v_samp = 1, .optimized = true},
                              {.orientation = 6},
                              {.h_samp = 1, .v_samp = 1, .orientation = 3},
                              {.h_samp = 2, .v_samp = 1},
                              {.restart_interval = 2},
                              {.progressive = true}};
    int number = 0;
    for (const JpegKind& kind : kinds) {
      const auto bytes = make_jpeg(make_picture(60 + number, 90 - 2 * number), kind);
      write_file(*this / (std::to_string(number % 2) + "/" + std::to_string(number) + ".jpg"),
                 {bytes.begin(), bytes.end()});
      ++number;
    }
  }
};

FolderParams params_of(const fs::path& photos) {
  FolderParams params;
  params.datadir = photos.string();
  params.crop_size = 32;
  params.drop_last = false;
  return params;
}

LoaderOptions options_of(const fs::path& cache, double gigabytes) {
  return {.batch_size = 4,
          .num_workers = 2,
          .index_dir = cache.string(),
          .coefficient_cache = gigabytes};
}

using Epochs = std::vector<std::vector<PlainBatch>>;

Epochs epochs_of(Loader& loader, const std::function<void()>& after_each = {}) {
  loader.start(0, 0);
  Epochs epochs;
  for (int i = 0; i < 3; ++i) {
    epochs.push_back(rest_of_epoch(loader));
    if (after_each) after_each();
  }
  return epochs;
}

Epochs epochs(const FolderParams& params, const LoaderOptions& options,
              const std::function<void()>& after_each = {}) {
  return epochs_of(*ImageFolderDataset(params).open(options), after_each);
}

/// The only file there with this ending.
fs::path file_in(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files[0];
}

}  // namespace

TEST_CASE("coefficients that are on their way to the disk are not kept again", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  {
    CoefficientStore store(file, kSource, kNoLimit);
    while (!store.find(3)) keep(store, 3);
  }
  CHECK(fs::file_size(file) <= 64 + 2 * rows_of(3).size());  // one between a look and its keeping
}

TEST_CASE("kept coefficients are found once they are written, and by later runs", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "deep/a.coefficients";
  {
    CoefficientStore store(file, kSource, kNoLimit);
    CHECK_FALSE(store.find(3));
    CHECK_FALSE(fs::exists(file));
    for (const uint64_t key : {3u, 900u, 41u}) keep(store, key);
    for (const uint64_t key : {3u, 900u, 41u}) CHECK(eventually([&] { return has(store, key); }));
  }
  {
    CoefficientStore store(file, kSource, kNoLimit);
    CHECK(found(store, 1000) == 3);
    keep(store, 4);
  }
  CoefficientStore store(file, kSource, kNoLimit);
  CHECK(found(store, 1000) == 4);
  CHECK_FALSE(has(store, 3, {1, 2}));
}

TEST_CASE("coefficients of another version of the source are dropped", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  {
    CoefficientStore store(file, kSource, kNoLimit);
    for (uint64_t key = 0; key < 50; ++key) keep(store, key);
  }
  const auto bytes = fs::file_size(file);
  const FileStamp changed{1001, 2000};
  {
    CoefficientStore store(file, changed, kNoLimit);
    CHECK(found(store, 50) == 0);
    keep(store, 7);
  }
  CHECK(fs::file_size(file) < bytes / 10);
  CoefficientStore store(file, changed, kNoLimit);
  CHECK(found(store, 50) == 1);
  CoefficientStore before(file, kSource, kNoLimit);
  CHECK(before.takes());
}

TEST_CASE("no more coefficients are kept than the limit says", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  constexpr uint64_t kLimit = 50'000;
  uint64_t before = 0;
  for (int run = 0; run < 2; ++run) {
    {
      CoefficientStore store(file, kSource, kLimit);
      for (uint64_t key = 0; key < 100; ++key)
        if (store.takes()) keep(store, 100 * static_cast<uint64_t>(run) + key);
      CHECK(eventually([&] { return !store.takes() || run > 0; }));
    }
    CHECK(fs::file_size(file) <= kLimit);
    CoefficientStore store(file, kSource, kLimit);
    const uint64_t now = found(store, 200);
    CHECK(now > 10);
    CHECK(now < 100);
    CHECK(now - before < 90);
    before = now;
  }
  CoefficientStore smaller(file, kSource, 1000);
  CHECK_FALSE(smaller.takes());
  CHECK(found(smaller, 200) == before);
}

TEST_CASE("a full disk ends the keeping, and nothing else", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  Errors errors(folder / "errors");
  {
    CoefficientStore store(file, kSource, kNoLimit);
    keep(store, 1);
    CHECK(eventually([&] { return has(store, 1); }));
    const LargestFile full(30'000);
    for (uint64_t key = 2; key < 100; ++key) keep(store, key);
    CHECK(eventually([&] { return !store.takes(); }));
    CHECK(has(store, 1));
  }
  CHECK_THAT(errors.text(),
             Contains("no more coefficients are kept") && Contains("cannot be written"));
  CoefficientStore store(file, kSource, kNoLimit);
  CHECK(found(store, 100) >= 1);
}

TEST_CASE("coefficients in a folder that cannot be written are not kept", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "file", "no folder");
  Errors errors(folder / "errors");
  {
    CoefficientStore store(folder / "file/a.coefficients", kSource, kNoLimit);
    keep(store, 1);
    CHECK(eventually([&] { return !store.takes(); }));
    CHECK_FALSE(store.find(1));
  }
  CHECK_THAT(errors.text(), Contains("no more coefficients are kept"));
}

TEST_CASE("processes keep coefficients in one file, and see each other's", "[data][slow]") {
  constexpr uint64_t kProcesses = 3, kEach = 60;
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  CoefficientStore here(file, kSource, kNoLimit);
  std::vector<pid_t> processes;
  for (uint64_t p = 0; p < kProcesses; ++p) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    {
      CoefficientStore store(file, kSource, kNoLimit);
      for (uint64_t i = 0; i < kEach; ++i) {
        keep(store, i * kProcesses + p);
        if (i % 10 == 0) ::usleep(1000);
      }
    }
    ::_exit(0);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ::waitpid(process, &status, 0);
    CHECK(status == 0);
  }
  CHECK(eventually([&] { return has(here, 0); }));
  CHECK(found(here, kProcesses * kEach) == kProcesses * kEach);
}

TEST_CASE("what a killed process had kept is sound, and goes on growing", "[data][slow]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.coefficients";
  for (int round = 0; round < 4; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      CoefficientStore store(file, kSource, kNoLimit);
      for (uint64_t key = 0;; ++key) {
        keep(store, key % 4000);
        if (key % 16 == 0) store.save();
      }
    }
    ::usleep(static_cast<useconds_t>(40'000 + 30'000 * round));
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    CHECK(WIFSIGNALED(status));
    CoefficientStore store(file, kSource, kNoLimit);
    found(store, 4000);
    keep(store, 5000);
    CHECK(eventually([&] { return has(store, 5000); }));
  }
}

TEST_CASE("batches are the same with kept coefficients, of folders and .beton files", "[data]") {
  const Photos photos;
  const TemporaryFolder cache, other;
  const FolderParams params = params_of(photos.path());
  const auto expected = epochs(params, options_of(other.path(), 0));
  CHECK(epochs(params, options_of(cache.path(), 1)) == expected);
  const auto bytes = fs::file_size(file_in(cache.path(), ".coefficients"));
  CHECK(bytes > 10'000);
  CHECK(epochs(params, options_of(cache.path(), 1)) == expected);
  CHECK(fs::file_size(file_in(cache.path(), ".coefficients")) == bytes);
  CHECK(epochs(params, options_of(cache.path(), 1e-5)) == expected);  // less than there is

  FolderParams twice = params;
  twice.views = 2;
  CHECK(epochs(twice, options_of(cache.path(), 1)) == epochs(twice, options_of(other.path(), 0)));

  const TemporaryFolder files;
  write_beton(*open_class_folders(params), files / "x.beton", {});
  const auto of_beton = [&](const LoaderOptions& options) {
    return epochs_of(*ImageFolderDataset(params).open_files({files / "x.beton"}, options));
  };
  LoaderOptions beside = options_of("", 1);
  beside.crop_index = "beside";
  const auto whole = of_beton(options_of(other.path(), 0));
  CHECK(of_beton(beside) == whole);
  CHECK(fs::file_size(files / "x.beton.coefficients") > 10'000);
  CHECK(fs::exists(files / "x.beton.coefficients.index"));
  CHECK(of_beton(beside) == whole);
}

TEST_CASE("coefficients that are damaged during a run change no image", "[data]") {
  const Photos photos;
  const TemporaryFolder cache, other;
  const FolderParams params = params_of(photos.path());
  const auto expected = epochs(params, options_of(other.path(), 0));
  const auto run = [&](const std::function<void()>& harm) {
    return epochs(params, options_of(cache.path(), 1), harm);
  };
  run({});
  const fs::path file = file_in(cache.path(), ".coefficients");
  const fs::path index = file_in(cache.path(), ".coefficients.index");
  const std::string sound = read_bytes(file);
  CHECK(run([&] { fs::resize_file(file, 9'000); }) == expected);
  CHECK(run([&] { std::ofstream(file) << std::string(sound.size(), 'x'); }) == expected);
  CHECK(run([&] { fs::remove(file); }) == expected);
  CHECK(run([&] { fs::remove(index); }) == expected);
  run({});
  CHECK(run([&] { fs::resize_file(index, fs::file_size(index) / 2); }) == expected);
  CHECK(run([&] {
          std::string bytes = read_bytes(file);
          for (size_t at = 100; at < bytes.size(); at += 777) bytes[at] ^= 1;
          std::ofstream(file) << bytes;
        }) == expected);
  write_file(file, "another program's");
  CHECK(run({}) == expected);

  // An image that changed is another one.
  const auto bytes = make_jpeg(make_picture(60, 90));
  write_file(photos / "0/0.jpg", {bytes.begin(), bytes.end()});
  write_file(photos / "1/1.jpg", {bytes.begin(), bytes.end()});
  CHECK(run({}) == epochs(params, options_of(other.path(), 0)));
}

TEST_CASE("a coefficient_cache without effect is refused or told of", "[data]") {
  const Photos photos;
  const TemporaryFolder cache;
  LoaderOptions options = options_of("", 1);
  options.crop_index = "off";
  CHECK_THROWS_WITH(ImageFolderDataset(params_of(photos.path())).open(options),
                    Contains("coefficient_cache: needs a crop_index"));
  const TemporaryFolder folder;
  const auto bytes = make_jpeg(make_picture(60, 90), {.progressive = true});
  write_file(folder / "a/0.jpg", {bytes.begin(), bytes.end()});
  Errors errors(cache / "errors");
  epochs(params_of(folder.path()), options_of(cache.path(), 1));
  CHECK_THAT(errors.text(), Contains("coefficient_cache: has no effect"));
}

}  // namespace composer::coefficient_store_test
