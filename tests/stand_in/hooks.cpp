// Stands in for LibTorch's CUDA library, so that what runs on a GPU runs in tests without one: what
// LibTorch asks about devices, streams and generators. STAND_IN_GPUS: how many there are.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/stand_in/log.h"
#include "tests/stand_in/memory.h"
#include "tests/stand_in/streams.h"

namespace composer::stand_in {
namespace {

DeviceMemory& device_memory() {
  static auto* memory = new DeviceMemory;
  return *memory;
}

PinnedMemory& pinned_memory() {
  static auto* memory = new PinnedMemory;
  return *memory;
}

void wait_for_device() {
  note("wait: device");
  CopiesUnderWay::wait_for_all();
}

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return getNumGPUs() > 0; }
  bool hasCUDA() const override { return getNumGPUs() > 0; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return number("STAND_IN_GPUS", 1); }
  at::DeviceIndex deviceCount() const override {
    return static_cast<at::DeviceIndex>(getNumGPUs());
  }
  at::DeviceIndex getCurrentDevice() const override { return stand_in::current_device(); }
  at::DeviceIndex current_device() const override { return stand_in::current_device(); }
  long versionCUDART() const override { return 13000; }
  bool isPinnedPtr(const void* place) const override { return PinnedMemory::holds(place); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  at::Device getDeviceFromPtr(void*) const override {
    return {at::kCUDA, stand_in::current_device()};
  }
  at::Generator getNewGenerator(at::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  void deviceSynchronize(at::DeviceIndex) const override { wait_for_device(); }
};

struct Guard : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device next) const override {
    const auto before = getDevice();
    setDevice(next);
    return before;
  }
  c10::Device getDevice() const override { return {type(), current_device()}; }
  void setDevice(c10::Device next) const override {
    TORCH_CHECK(next.index() < deviceCount(), "the stand-in has no device ", next.index());
    current_device() = next.index();
  }
  void uncheckedSetDevice(c10::Device next) const noexcept override {
    current_device() = next.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(number("STAND_IN_GPUS", 1));
  }
  c10::Stream stream(c10::StreamId id) const {
    return c10::Stream(c10::Stream::UNSAFE, getDevice(), id);
  }
  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current_stream, next.id()));
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    *event = CopiesUnderWay::event_on(stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    note("stream " + std::to_string(stream.id()) + " waits");
    CopiesUnderWay::wait_for(event);
  }
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {
    note("wait: stream");
    CopiesUnderWay::wait_for_all();
  }
  void synchronizeEvent(void* event) const override {
    note("event");
    CopiesUnderWay::wait_for(event);
  }
  void synchronizeDevice(c10::DeviceIndex) const override { wait_for_device(); }
};

const bool opened = [] {
  note("opened");
  c10::SetAllocator(c10::DeviceType::CUDA, &device_memory());
  return true;
}();

}  // namespace
}  // namespace composer::stand_in

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, composer::stand_in::Hooks)
}
namespace c10::impl {
C10_REGISTER_GUARD_IMPL(CUDA, composer::stand_in::Guard)
}
