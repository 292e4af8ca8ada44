// This program links what reads data, and no LibTorch.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/loading/batch_loader.h"
#include "tests/data/fake_sources.h"
#include "tests/files.h"

namespace composer::reading_test {

using namespace composer::test;

namespace {

class HeapArrays : public ArrayAllocator {
 public:
  Array reused(const std::vector<int64_t>& shape, ElementType type) override {
    Array array{nullptr, shape, type};
    const auto bytes = static_cast<size_t>(array.row_bytes() * shape[0]);
    const std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes]);
    array.data = memory.get();
    array.owner = memory;
    return array;
  }
  Array fresh(const std::vector<int64_t>& shape, ElementType type) override {
    return reused(shape, type);
  }
  void clear() override {}
};

std::unique_ptr<BatchLoader> open(const fs::path& path, ElementType output) {
  ImageLoaderOptions options;
  options.transform.size = {32, 24};
  options.normalization = {{10, 20, 30}, {2, 4, 5}};
  options.output = output;
  LoaderOptions common;
  common.batch_size = 4;
  common.num_workers = 2;
  auto loader = make_batch_loader(std::make_shared<BetonSource>(path, 3), options, common,
                                  std::make_unique<HeapArrays>());
  loader->start(0, 0, {});
  return loader;
}

}  // namespace

TEST_CASE("a .beton file becomes batches without LibTorch", "[reading]") {
  std::vector<Image> images;
  for (int i = 0; i < 10; ++i) images.push_back(make_picture(32, 24));
  for (size_t i = 0; i < images.size(); ++i) images[i].pixels[0] = static_cast<uint8_t>(i);
  const TemporaryFolder folder;
  WriteOptions written;
  written.pack.mode = WriteMode::raw;
  write_beton(FakePixels(images), folder / "set.beton", written);

  const auto bytes = open(folder / "set.beton", ElementType::uint8);
  const auto numbers = open(folder / "set.beton", ElementType::float32);
  for (int epoch = 0; epoch < 2; ++epoch) {
    int64_t sample = 0;
    while (const auto batch = bytes->next()) {
      const auto normalised = numbers->next();
      REQUIRE(normalised);
      CHECK(batch->images.shape[0] == (sample == 8 ? 2 : 4));
      CHECK(batch->images.shape == normalised->images.shape);
      CHECK(normalised->images.type == ElementType::float32);
      for (int64_t i = 0; i < batch->images.shape[0]; ++i, ++sample) {
        CHECK(batch->classes.as<int64_t>()[i] == -sample);
        CHECK(batch->indices.as<int64_t>()[i] == sample);
        const Bytes wanted = pixels_of(images[static_cast<size_t>(sample)]);
        const auto* const pixels = batch->images.as<uint8_t>() + i * batch->images.row_bytes();
        const auto* const floats =
            normalised->images.as<float>() + i * normalised->images.row_bytes() / 4;
        bool same = true, same_normalised = true;
        for (size_t j = 0; j < wanted.size(); ++j) {
          const float mean[] = {10, 20, 30}, std[] = {2, 4, 5};
          same = same && pixels[j] == wanted[j];
          same_normalised = same_normalised &&
                            std::abs(floats[j] - (static_cast<float>(wanted[j]) - mean[j % 3]) /
                                                     std[j % 3]) < 1e-4F;
        }
        CHECK(same);
        CHECK(same_normalised);
      }
    }
    CHECK(sample == 10);
    CHECK_FALSE(numbers->next());
  }
}

TEST_CASE("this program has no library of LibTorch", "[reading]") {
  const std::string maps = read_bytes("/proc/self/maps");
  CHECK(maps.find("libc.so") != std::string::npos);
  for (const char* library : {"libtorch.so", "libtorch_cpu.so", "libc10.so"})
    CHECK(maps.find(library) == std::string::npos);
}

}  // namespace composer::reading_test
