// What measurements ask of a loader: samples that are decoded before, or not in the system's cache.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/batches/image_loader.h"
#include "data/beton/source.h"
#include "data/samples/memory_source.h"
#include "tests/data/fake_sources.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::decoded_source_test {

using namespace composer::test;

namespace {

Bytes opened(const Source& source, int64_t index) {
  ReadScratch scratch;
  const auto image = source.open(index, scratch);
  CHECK_FALSE(image.jpeg);
  CHECK(static_cast<int64_t>(image.bytes.size()) ==
        image.size.height * image.size.width * image.channels);
  return {image.bytes.begin(), image.bytes.end()};
}

std::unique_ptr<Loader> loader_of(std::shared_ptr<Source> source, const LoaderOptions& common) {
  const ImageLoaderOptions options{
      .transform = {.size = {24, 24}}, .normalization = {{0, 0, 0}, {1, 1, 1}}, .training = true};
  return make_image_loader(std::move(source), options, common);
}

/// Which of the file's pages are in the system's cache.
std::vector<unsigned char> cached_pages(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  const auto size = static_cast<size_t>(::lseek(file, 0, SEEK_END));
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page - 1) / page);
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(mapping != MAP_FAILED);
  CHECK(::mincore(mapping, size, pages.data()) == 0);
  ::munmap(mapping, size);
  ::close(file);
  for (auto& one : pages) one &= 1;
  return pages;
}

void flush(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR);
  CHECK(::fsync(file) == 0);
  ::close(file);
}

}  // namespace

TEST_CASE("samples that are decoded before have their pixels and classes, spread over the set",
          "[data]") {
  auto files = std::make_shared<FakeFiles>();
  std::vector<Image> images;
  for (int i = 0; i < 6; ++i) {
    images.push_back(make_picture(32, 24 + i));
    files->add(make_jpeg(images.back()));
  }
  const DecodedSource all(files, 100);
  CHECK(all.decoded() == 6);
  for (int64_t i = 0; i < 6; ++i) {
    CHECK(opened(all, i) == decoded(files->files[static_cast<size_t>(i)]));
    CHECK(all.label(i) == files->label(i));
    CHECK(all.name(i) == files->name(i));
  }
  const DecodedSource three(files, 3);
  CHECK(three.decoded() == 3);
  CHECK(three.size() == 6);
  for (const auto& [index, stands] : {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {2, 2}, {5, 4}}) {
    CHECK(opened(three, index) == decoded(files->files[static_cast<size_t>(stands)]));
    CHECK(three.label(index) == files->label(stands));
  }
}

TEST_CASE("samples that cannot be decoded are left out; where none can, that is an error",
          "[data]") {
  auto files = std::make_shared<FakeFiles>();
  files->add({'b', 'a', 'd', '!'});
  CHECK_THROWS_AS(DecodedSource(files, 4), RunError);
  files->add(make_jpeg(make_picture(32, 32)));
  const DecodedSource source(files, 4);
  CHECK(source.decoded() == 1);
  CHECK(source.label(0) == files->label(1));
}

TEST_CASE("a loader of decoded samples says how many it has", "[data]") {
  const auto decoded = std::make_shared<DecodedSamples>(DecodedSamples{5});
  const auto loader =
      loader_of(std::make_shared<FakePixels>(pictures(16)), {.batch_size = 4, .decoded = decoded});
  CHECK(decoded->kept == 5);
  CHECK(loader->samples_per_epoch() == 16);
  const auto batches = rest_of_epoch(*loader);
  REQUIRE(batches.size() == 4);
  CHECK(batches[0].shape == std::vector<int64_t>{4, 24, 24, 3});
}

TEST_CASE("cold samples are the same ones, read from where they lie", "[data]") {
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  write_beton(FakePixels(pictures(16)), path, options_of(WriteMode::raw));
  write_file(folder / "files/a.jpg", [] {
    const auto bytes = make_jpeg(make_picture(64, 64));
    return std::string(bytes.begin(), bytes.end());
  }());
  auto files = std::make_shared<FileSource>(table_of_files({folder / "files/a.jpg"}), "", 3);
  for (const std::shared_ptr<Source>& source :
       {std::shared_ptr<Source>(std::make_shared<BetonSource>(path, 3)),
        std::shared_ptr<Source>(files)}) {
    const int64_t size = std::min<int64_t>(source->size(), 4);
    const auto warm = rest_of_epoch(*loader_of(source, {.batch_size = size}));
    CHECK(rest_of_epoch(*loader_of(source, {.batch_size = size, .cold = true})) == warm);
  }
}

TEST_CASE("what is forgotten of a set leaves the system's cache", "[data]") {
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  write_beton(FakePixels(pictures(400)), path, options_of(WriteMode::raw));
  flush(path);
  const BetonSource source(path, 3);
  for (int64_t i = 0; i < source.size(); ++i) opened(source, i);
  const auto count = [&] {
    const auto pages = cached_pages(path);
    return std::count(pages.begin(), pages.end(), 1);
  };
  const auto before = count();
  REQUIRE(before > 100);
  for (int64_t i = 0; i < source.size(); ++i) source.forget(i, false);
  if (count() == before) {
    WARN("skipped: this file system keeps its files in memory, or the process may not drop pages");
    return;
  }
  CHECK(count() < before);  // how many is the file system's choice
}

}  // namespace composer::decoded_source_test
