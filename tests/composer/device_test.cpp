#include "nn/device/device.h"

#include <ATen/Context.h>
#include <c10/core/CPUAllocator.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/gpu.h"

namespace composer::device_test {

TEST_CASE("without a GPU gpu is an error that says why, and auto is the CPU", "[device]") {
  CHECK(resolve_device("cpu", {}).is_cpu());
  if (open_cuda().gpus > 0) {
    CHECK(resolve_device("gpu", {}).is_cuda());
    CHECK(resolve_device("auto", {}).is_cuda());
    return;
  }
  CHECK(resolve_device("auto", {}).is_cpu());
  CHECK_THROWS_WITH(resolve_device("gpu", {}),
                    "device: gpu: " + open_cuda().problem + "; use cpu or auto");
}

TEST_CASE("seed_generator draws what at::manual_seed draws", "[device]") {
  at::manual_seed(5);
  const auto expected = at::randn({100});
  seed_generator(5);
  CHECK(at::equal(at::randn({100}), expected));
}

TEST_CASE("copies reach the device with the same type, shape and values", "[device][gpu]") {
  for (const auto device : test::devices())
    for (const int64_t rows : {3, 3000}) {
      const auto numbers = at::arange(rows * 200, at::kLong).view({rows, 200});
      for (const auto& tensor : {numbers, numbers.t(), numbers[0], numbers[0][0]}) {
        const auto copy = copy_to(device, tensor);
        CHECK(copy.device().type() == device.type());
        CHECK(copy.scalar_type() == at::kLong);
        CHECK(at::equal(copy.cpu(), tensor));
      }
    }
}

TEST_CASE("errors that say that memory ran out are told from others", "[device]") {
  const auto out_of_memory = [](const auto& action) {
    try {
      action();
    } catch (const std::exception& error) {
      return is_out_of_memory(error);
    }
    return false;
  };
  CHECK(out_of_memory([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory"); }));
  CHECK(out_of_memory([] { TORCH_CHECK(false, "CUDA error: out of memory"); }));
  CHECK(out_of_memory([] { throw OutOfMemory("out of memory"); }));
#ifndef __SANITIZE_ADDRESS__
  CHECK(out_of_memory([] { c10::GetDefaultCPUAllocator()->allocate(size_t{1} << 50); }));
#endif
  CHECK_FALSE(out_of_memory([] { TORCH_CHECK(false, "sizes do not match"); }));
  CHECK_FALSE(out_of_memory([] { throw RunError("out of memory"); }));
}

TEST_CASE("deterministic mode leaves new tensors unfilled and lets go where no order counts",
          "[device]") {
  const auto& context = at::globalContext();
  set_deterministic(true);
  CHECK(context.deterministicAlgorithms());
  CHECK_FALSE(context.deterministicFillUninitializedMemory());
  CHECK_FALSE(context.benchmarkCuDNN());
  {
    const AnyOrder outer;
    CHECK_FALSE(context.deterministicAlgorithms());
    { const AnyOrder inner; }
    CHECK_FALSE(context.deterministicAlgorithms());
  }
  CHECK(context.deterministicAlgorithms());

  set_deterministic(false);
  { const AnyOrder nothing; }
  CHECK_FALSE(context.deterministicAlgorithms());
  CHECK(context.benchmarkCuDNN());
}

TEST_CASE("cuDNN tries fewer algorithms where images change their size", "[device]") {
  set_deterministic(false);
  const int before = at::globalContext().benchmarkLimitCuDNN();
  expect_many_image_sizes();
  CHECK(at::globalContext().benchmarkLimitCuDNN() < before);
  set_deterministic(false);
  CHECK(at::globalContext().benchmarkLimitCuDNN() == before);
}

}  // namespace composer::device_test
