#include "nn/device/cpu_allocator.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

namespace composer::cpu_allocator_test {

using composer::CpuAllocator;

TEST_CASE("a freed block serves the next request that it fits", "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  constexpr size_t size = 8 << 20;
  void* first = nullptr;
  {
    const auto block = allocator.allocate(size);
    first = block.get();
    CHECK(block.get() == block.get_context());
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    std::memset(first, 1, size);
  }
  const size_t mapped = allocator.mapped_bytes();
  CHECK(allocator.allocate(size - 100).get() == first);
  CHECK(allocator.allocate(size - (1 << 20)).get() == first);
  CHECK(allocator.mapped_bytes() == mapped);
}

TEST_CASE("of large blocks no more is mapped than was in use at one time", "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  { const auto block = allocator.allocate(64 << 20); }
  const size_t mapped = allocator.mapped_bytes();
  for (size_t size = 2 << 20; size <= 64 << 20; size += 1 << 20) {
    const auto block = allocator.allocate(size);
    std::memset(block.get(), 1, size);
    CHECK(allocator.mapped_bytes() == mapped);
  }
}

TEST_CASE("freed pages make up larger blocks, and large blocks are divided", "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  constexpr size_t page = 2 << 20;
  size_t mapped = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<c10::DataPtr> blocks;
    for (size_t i = 0; i < 24; ++i) {
      blocks.push_back(allocator.allocate(page * (i % 3 + 1)));
      std::memset(blocks.back().get(), static_cast<int>(i), page * (i % 3 + 1));
    }
    if (round == 0) mapped = allocator.mapped_bytes();
    // Every second one makes room; the others keep what is in them.
    for (size_t i = 0; i < 24; i += 2) blocks[i].clear();
    auto large = allocator.allocate(20 * page);
    std::memset(large.get(), 77, 20 * page);
    for (size_t i = 1; i < 24; i += 2) {
      const auto* bytes = static_cast<const unsigned char*>(blocks[i].get());
      const size_t size = page * (i % 3 + 1);
      CHECK((bytes[0] == i && bytes[size / 2] == i && bytes[size - 1] == i));
    }
    CHECK(allocator.mapped_bytes() == mapped);
  }
}

TEST_CASE("what is mapped of smaller blocks stays near the most that was in use",
          "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(1 << 20));
  blocks.clear();
  const size_t mapped = allocator.mapped_bytes();
  for (size_t size = 512 << 10; size < 2 << 20; size += 64 << 10) {
    for (int i = 0; i < 8; ++i) blocks.push_back(allocator.allocate(size));
    blocks.clear();
    CHECK(allocator.mapped_bytes() <= mapped + mapped / 4 + (2 << 20));
  }
}

TEST_CASE("small and empty requests, and requests from several threads", "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  CHECK(allocator.allocate(0).get() == nullptr);
  const auto work = [&](unsigned char mark) {
    for (size_t i = 0; i < 200; ++i) {
      const size_t size = (i % 7 + 1) * (200 << 10);
      const auto block = allocator.allocate(size);
      auto* bytes = static_cast<unsigned char*>(block.get());
      std::memset(bytes, mark, size);
      CHECK_NOTHROW(bytes[0] == mark && bytes[size - 1] == mark
                        ? void()
                        : throw std::runtime_error("overwritten"));
    }
  };
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) allocator.allocate(1 << 20);
  });
  work(7);
  other.join();
}

TEST_CASE("tensors come from it once it is installed", "[cpu_allocator]") {
  composer::install_cpu_allocator();
  const size_t kept = CpuAllocator::instance().kept_bytes();
  {
    const auto tensor = at::ones({1 << 20});
    CHECK(tensor.sum().item<float>() == 1 << 20);
  }
  CHECK(CpuAllocator::instance().kept_bytes() + CpuAllocator::instance().mapped_bytes() > kept);
  const auto grown = at::zeros({100}).resize_({1 << 20});
  CHECK(grown.numel() == 1 << 20);
}

}  // namespace composer::cpu_allocator_test
