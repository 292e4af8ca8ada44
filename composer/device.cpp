#include "composer/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

#include "composer/error.h"

namespace composer {
namespace {

/// Why there is no CUDA; empty when there is. LibTorch caches its first answer about CUDA, so this
/// must come before.
std::string open_cuda() {
  static const std::string problem = []() -> std::string {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr)
      return "no NVIDIA driver (libcuda.so.1) on this machine";
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
      return std::string("LibTorch's CUDA library cannot be opened: ") + dlerror();
    if (!at::hasCUDA() || at::detail::getCUDAHooks().getNumGPUs() == 0)
      return "the driver reports no usable GPU";
    return "";
  }();
  return problem;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "processor";
}

}  // namespace

at::Device resolve_device(std::string_view word) {
  if (word == "cpu") return at::kCPU;
  const auto problem = open_cuda();
  if (!problem.empty()) {
    if (word == "gpu") throw UserError("device: gpu: " + problem + "; use cpu or auto");
    return at::kCPU;
  }
  const char* local_rank = std::getenv("LOCAL_RANK");
  const int index = local_rank ? std::atoi(local_rank) : 0;
  const int count = at::detail::getCUDAHooks().getNumGPUs();
  if (index >= count)
    throw UserError("LOCAL_RANK: " + std::to_string(index) + " has no GPU; this machine has " +
                    std::to_string(count));
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

void seed_generator(uint64_t seed) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::string describe(at::Device device) {
  if (!device.is_cpu()) return device.str();
  return "cpu (" + processor_name() + ", " + std::to_string(at::get_num_threads()) + " threads, " +
         at::get_cpu_capability() + ")";
}

void synchronize(at::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

at::Tensor copy_to(at::Device device, const at::Tensor& tensor) {
  const auto copy = [&] { return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true); };
  if (device.is_cpu() || !tensor.is_pinned()) return copy();
  const c10::impl::VirtualGuardImpl streams(device.type());
  static const c10::Stream copying = streams.getStreamFromGlobalPool(device);
  const c10::Stream computing = streams.getStream(device);
  at::Tensor copied;
  {
    const c10::StreamGuard guard(copying);
    copied = copy();
  }
  c10::Event done(device.type());
  done.record(copying);
  done.block(computing);
  copied.record_stream(computing);
  return copied;
}

int64_t peak_memory_bytes(at::Device device) {
  if (device.is_cpu()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_maxrss) * 1024;
  }
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
      .peak;
}

void set_deterministic(bool deterministic) {
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(deterministic);
  at::globalContext().setBenchmarkCuDNN(!deterministic);
}

}  // namespace composer
