#include "data/batches/tensor_pool.h"

#include <catch2/catch.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace composer::tensor_pool_test {

namespace {

/// Makes so many tensors that live at once. Returns where their memory is.
std::set<const void*> memory_of(TensorPool& pool, int64_t count, at::IntArrayRef shape) {
  std::vector<at::Tensor> tensors;
  std::set<const void*> memory;
  for (int64_t i = 0; i < count; ++i) {
    tensors.push_back(pool.reused(shape, at::kByte));
    memory.insert(tensors.back().const_data_ptr());
  }
  return memory;
}

}  // namespace

TEST_CASE("memory comes back when its last tensor goes", "[data]") {
  TensorPool pool(2, false);
  at::Tensor first = pool.reused({4, 100}, at::kByte);
  const void* const memory = first.const_data_ptr();
  at::Tensor part = first.select(0, 3);
  first.reset();
  CHECK_FALSE(memory_of(pool, 2, {4, 100}).contains(memory));  // the part needs it
  pool.clear();
  std::thread([held = std::move(part)]() mutable { held.reset(); }).join();
  CHECK(pool.reused({4, 100}, at::kByte).const_data_ptr() == memory);
}

TEST_CASE("a pool's memory serves tensors of any shape and type that it is enough for", "[data]") {
  TensorPool pool(2, false);
  const void* memory = nullptr;
  const auto is_reused = [&](at::IntArrayRef shape, at::ScalarType type) {
    const at::Tensor tensor = pool.reused(shape, type);
    CHECK(tensor.sizes() == shape);
    CHECK(tensor.scalar_type() == type);
    return std::exchange(memory, tensor.const_data_ptr()) == memory;
  };
  is_reused({8, 100}, at::kByte);
  CHECK(is_reused({200}, at::kFloat));
  CHECK(is_reused({3, 7}, at::kBFloat16));
  is_reused({801}, at::kByte);  // too large for it, which is let go
  CHECK(is_reused({801}, at::kByte));
  CHECK(is_reused({8, 100}, at::kByte));
}

TEST_CASE("a pool keeps no more blocks than it was told, and none once cleared", "[data]") {
  TensorPool pool(3, false);
  const std::vector<int64_t> shape{1000};
  at::Tensor last;
  {
    std::vector<at::Tensor> many;
    for (int i = 0; i < 10; ++i) many.push_back(pool.reused(shape, at::kByte));
    last = many.back();
  }
  const auto kept = memory_of(pool, 3, shape);
  CHECK(memory_of(pool, 3, shape) == kept);
  CHECK_FALSE(kept.contains(last.const_data_ptr()));
  const at::Tensor other = pool.fresh(shape, at::kByte);
  CHECK_FALSE(kept.contains(other.const_data_ptr()));
  const void* const held = last.const_data_ptr();
  pool.clear();
  last.reset();
  CHECK(memory_of(pool, 1, shape) == std::set<const void*>{held});
}

TEST_CASE("a tensor outlives its pool", "[data]") {
  at::Tensor tensor;
  {
    TensorPool pool(2, false);
    tensor = pool.reused({10}, at::kLong);
  }
  CHECK(tensor.fill_(7).sum().item<int64_t>() == 70);
}

}  // namespace composer::tensor_pool_test
