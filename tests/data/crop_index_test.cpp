// Where crop indices are kept, and that they are those of the streams.
#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"
#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "data/index/index_location.h"
#include "tests/data/index_bytes.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::crop_index_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string photo(int64_t width) {
  const auto bytes = make_jpeg(make_picture(60, width));
  return {bytes.begin(), bytes.end()};
}

/// Two classes of three photographs each.
struct Photos : TemporaryFolder {
  Photos() {
    for (int i = 0; i < 6; ++i) {
      write_file(*this / (std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg"), photo(70 + i));
    }
  }
};

/// Every file and folder with the time of its change.
std::set<std::string> all_in(const fs::path& folder) {
  const auto line = [](const fs::path& path) {
    return path.string() + ' ' +
           std::to_string(fs::last_write_time(path).time_since_epoch().count());
  };
  std::set<std::string> all{line(folder)};
  for (const auto& entry : fs::recursive_directory_iterator(folder)) all.insert(line(entry.path()));
  return all;
}

/// But for lists of files, which are kept whatever becomes of indices.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.path().extension() != ".table") files.push_back(entry.path());
  return files;
}

std::unique_ptr<Loader> open(const fs::path& photos, const std::string& crop_index,
                             const std::string& index_dir = "",
                             OnBadSample on_bad_sample = OnBadSample::error) {
  FolderParams params;
  params.datadir = photos.string();
  params.crop_size = 32;
  params.drop_last = false;
  return ImageFolderDataset(params).open({.batch_size = 4,
                                          .num_workers = 2,
                                          .on_bad_sample = on_bad_sample,
                                          .crop_index = crop_index,
                                          .index_dir = index_dir});
}

std::vector<PlainBatch> epoch(const fs::path& photos, const std::string& crop_index,
                              const std::string& index_dir = "") {
  const auto loader = open(photos, crop_index, index_dir);
  loader->start(0, 0);
  return rest_of_epoch(*loader);
}

/// A cache of the user's for one test.
class UsersCache {
 public:
  UsersCache() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~UsersCache() { ::setenv("XDG_CACHE_HOME", before_.c_str(), 1); }
  fs::path composer() const { return folder_ / "composer"; }

 private:
  TemporaryFolder folder_;
  std::string before_ = std::getenv("XDG_CACHE_HOME");
};

/// Reads image 0 as a loader does. Returns whether all of its codes had to be walked.
bool walks(const FileSource& source, IndexStore& store, ReadScratch& scratch) {
  StoredImage image = source.open(0, scratch);
  image.index.use(store);
  const Box part{30, 20, 20, 20};
  const auto read = read_part(image, {.region = part}, 3, scratch);
  const bool walked = scratch.decoder.has_recorded();
  JpegDecoder plain;
  const auto expected = plain.decode(image.bytes, {.region = part});
  for (int64_t y = 0; y < part.height; ++y) {
    CHECK(std::equal(expected.pixels.row(y), expected.pixels.row(y) + 3 * part.width,
                     read.pixels.row(y)));
  }
  return walked;
}

/// Reads image 0 in three runs of two epochs.
int walks_in_three_runs(const FileSource& source, const fs::path& file) {
  int walked = 0;
  ReadScratch scratch;
  for (int run = 0; run < 3; ++run) {
    IndexStore store(file, {});
    for (int i = 0; i < 2; ++i) {
      walked += walks(source, store, scratch);
      store.flush();
    }
  }
  return walked;
}

}  // namespace

TEST_CASE("crop_index: cache leaves the folder of the data alone", "[data]") {
  const Photos photos;
  const TemporaryFolder cache;
  const UsersCache users;
  const auto before = all_in(photos.path());
  const auto batches = epoch(photos.path(), "cache", cache / "a/b");
  CHECK(all_in(photos.path()) == before);
  const auto files = files_in(cache / "a/b");
  REQUIRE(files.size() == 1);
  CHECK(files_in(users.composer()).empty());
  const std::string bytes = read_bytes(files[0]);
  CHECK(!IndexTable(files[0], {}).empty());

  fs::create_directory_symlink(photos.path(), cache / "link");  // the same data
  CHECK(epoch(cache / "link", "cache", cache / "a/b") == batches);
  CHECK(files_in(cache / "a/b") == files);
  CHECK(read_bytes(files[0]) == bytes);

  CHECK(epoch(photos.path(), "cache") == batches);
  CHECK(files_in(users.composer()).size() == 1);
  CHECK(all_in(photos.path()) == before);
}

TEST_CASE("crop_index: off leaves no index anywhere", "[data]") {
  const Photos photos;
  const UsersCache users;
  const auto before = all_in(photos.path());
  const auto batches = epoch(photos.path(), "off");
  CHECK(all_in(photos.path()) == before);
  CHECK(files_in(users.composer()).empty());
  CHECK(epoch(photos.path(), "beside") == batches);

  const TemporaryFolder folder;
  FolderParams params;
  params.datadir = photos.path().string();
  params.ffcv = {.use_ffcv = true,
                 .ffcv_dir = folder.path().string(),
                 .ffcv_dest = "x.beton",
                 .ffcv_write_dataset = true};
  { ImageFolderDataset(params).open({.crop_index = "off"}); }
  CHECK(files_in(folder.path()) == std::vector<fs::path>{folder / "x.beton"});
}

TEST_CASE("an index beside the data is used, and not made twice", "[data]") {
  const Photos photos;
  const UsersCache users;
  const auto batches = epoch(photos.path(), "beside");
  CHECK(fs::exists(photos / ".composer-index"));
  CHECK(files_in(users.composer()).empty());
  const std::string bytes = read_bytes(photos / ".composer-index");
  CHECK(epoch(photos.path(), "cache") == batches);
  CHECK(files_in(users.composer()).empty());

  write_file(photos / "0/new.jpg", photo(99));
  epoch(photos.path(), "cache");
  REQUIRE(files_in(users.composer()).size() == 1);
  CHECK(read_bytes(photos / ".composer-index") == bytes);
}

TEST_CASE("a .beton file's index is kept in the same places", "[data]") {
  const Photos photos;
  const TemporaryFolder folder;
  FolderParams params;
  params.datadir = photos.path().string();
  write_beton(*open_class_folders(params), folder / "x.beton", {});
  const auto epoch = [&](const std::string& crop_index) {
    const auto loader = ImageFolderDataset(params).open_files(
        {folder / "x.beton"}, {.crop_index = crop_index, .index_dir = ""});
    return rest_of_epoch(*loader);
  };
  const UsersCache users;
  const auto batches = epoch("off");
  CHECK(epoch("cache") == batches);
  CHECK(files_in(folder.path()).size() == 1);
  REQUIRE(files_in(users.composer()).size() == 1);
  CHECK(epoch("beside") == batches);
  CHECK(fs::exists(folder / "x.beton.index"));
}

TEST_CASE("the loader refuses an index_dir that it would not use", "[data]") {
  const Photos photos;
  CHECK_THROWS_WITH(open(photos.path(), "beside", "/tmp/x"),
                    Contains("index_dir") && Contains("crop_index: cache"));
  CHECK_THROWS_AS(open(photos.path(), "off", "/tmp/x"), UserError);
  CHECK_THROWS_WITH(open(photos.path(), "on"), Contains("beside, cache or off"));
}

TEST_CASE("training goes on where the index cannot be written", "[data]") {
  const Photos photos;
  write_file(photos / "file", "no folder");
  const auto loader = open(photos.path(), "cache", photos / "file");
  loader->start(0, 0);
  const auto batches = rest_of_epoch(*loader);
  CHECK(batches == epoch(photos.path(), "off"));
  CHECK(rest_of_epoch(*loader).size() == batches.size());
}

TEST_CASE("an index that is damaged during a run changes no image", "[data]") {
  const Photos photos;
  const auto run = [&](const auto& harm) {
    const auto loader = open(photos.path(), "beside");
    loader->start(0, 0);
    std::vector<std::vector<PlainBatch>> epochs;
    for (int i = 0; i < 3; ++i) {
      epochs.push_back(rest_of_epoch(*loader));
      harm();
    }
    return epochs;
  };
  const std::string index = photos / ".composer-index";
  epoch(photos.path(), "beside");
  const auto expected = run([] {});
  CHECK(run([&] { fs::resize_file(index, 100); }) == expected);
  CHECK(run([&] { std::ofstream(index) << std::string(2000, 'x'); }) == expected);
  CHECK(run([&] { fs::remove(index); }) == expected);
}

TEST_CASE("a damaged JPEG is left out in every epoch, with a crop index and without", "[data]") {
  const Photos photos;
  const UsersCache users;
  for (int i = 0; i < 2; ++i) {
    std::string damaged = photo(100 + i);
    damaged.replace(damaged.size() * 9 / 10, 2, "\xFF\xD9");  // the last row of MCUs lacks codes
    write_file(photos / ("0/damaged" + std::to_string(i) + ".jpg"), damaged);
  }
  for (const char* crop_index : {"off", "cache"}) {
    const auto loader = open(photos.path(), crop_index, "", OnBadSample::skip);
    loader->start(0, 0);
    for (int i = 0; i < 6; ++i) {
      size_t samples = 0;
      for (const auto& batch : rest_of_epoch(*loader)) samples += batch.classes.size();
      INFO("crop_index " << crop_index << ", epoch " << i);
      CHECK(samples == 6);
    }
  }
}

TEST_CASE("a stale index is replaced once", "[data]") {
  const TemporaryFolder folder;
  const std::string image = folder / "a.jpg";
  const fs::path file = folder / "index";
  write_file(image, photo(70));
  FileSource source(table_of_files({"a.jpg"}), folder / "", 3);
  source.index_below(folder.path().string());
  CHECK(walks_in_three_runs(source, file) == 1);

  write_file(image, photo(90));
  CHECK(walks_in_three_runs(source, file) == 1);

  // Another image with the size and time of the first, or an index of another stream under its key.
  const auto other = make_jpeg_index(make_jpeg(make_picture(50, 50)));
  for (int round = 0; round < 2; ++round) {
    IndexWriter writer(file);
    writer.add(key_of("a.jpg"), other, stamp_of(image));
    writer.finish({});
    CHECK(walks_in_three_runs(source, file) == 1);
  }
}

}  // namespace composer::crop_index_test
