#include "nn/network/normalize.h"

#include <ATen/record_function.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "tests/gpu.h"

namespace composer::normalize_test {

namespace {

/// Counts operators that are given a tensor of the CPU, while it lives.
class CpuInputs {
 public:
  CpuInputs() {
    count() = 0;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&look).needsInputs(true));
  }
  ~CpuInputs() { at::removeCallback(handle_); }
  static std::atomic<int>& count() {
    static std::atomic<int> value;
    return value;
  }

 private:
  static std::unique_ptr<at::ObserverContext> look(const at::RecordFunction& op) {
    for (const auto& input : op.inputs())
      if (input.isTensor() && input.toTensor().defined() && input.toTensor().is_cpu()) ++count();
    return nullptr;
  }
  at::CallbackHandle handle_;
};

}  // namespace

TEST_CASE("a device's normalisation uploads its constants once", "[normalize]") {
  const Normalization normalization{{1, 2, 3}, {4, 5, 6}}, other{{1, 2, 3}, {4, 5, 7}};
  const auto images = at::zeros({2, 4, 4, 3}, at::TensorOptions(at::kMeta).dtype(at::kByte));
  const auto format = at::MemoryFormat::ChannelsLast;
  CHECK(normalize(images, normalization, format).sizes() == at::IntArrayRef{2, 3, 4, 4});
  {
    const CpuInputs uploads;
    normalize(images, normalization, format);
    CHECK(CpuInputs::count() == 0);
    normalize(images, other, format);
    CHECK(CpuInputs::count() > 0);
  }
}

TEST_CASE("only bytes are normalised, and once", "[normalize]") {
  const Normalization normalization{{1}, {4}};
  CHECK_THROWS_WITH(normalize(at::zeros({2, 4, 4, 1}), normalization, at::MemoryFormat::Contiguous),
                    "images to be normalised must be bytes, not Float");
}

TEST_CASE("normalisation is the same on every device", "[normalize][gpu]") {
  const Normalization normalization{{120, 110, 100}, {60, 50, 40}};
  const auto images = at::randint(256, {3, 5, 7, 3}, at::kByte);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto expected = normalize(images, normalization, format);
    for (const auto device : test::devices()) {
      const auto found = normalize(images.to(device), normalization, format);
      CHECK(found.is_contiguous(format));
      CHECK(at::allclose(found.cpu(), expected, 1e-6, 1e-6));
    }
  }
}

}  // namespace composer::normalize_test
