#include "composer/cpu_allocator.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

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

TEST_CASE("what is mapped stays near the most that was in use", "[cpu_allocator]") {
  auto& allocator = CpuAllocator::instance();
  { const auto block = allocator.allocate(64 << 20); }
  const size_t mapped = allocator.mapped_bytes();
  for (size_t size = 1 << 20; size <= 64 << 20; size += 1 << 20) {
    const auto block = allocator.allocate(size);
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
