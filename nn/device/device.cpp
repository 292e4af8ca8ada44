#include "nn/device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/rank_environment.h"
#include "nn/device/cuda.h"

namespace composer {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "processor";
}

/// The number of algorithms that cuDNN tries for a convolution.
constexpr int most_algorithms = 10, few_algorithms = 2;

constexpr size_t most_staged_bytes = 1 << 20;

at::Tensor queued_copy(at::Device device, const at::Tensor& tensor) {
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true);
}

c10::Stream copying_stream(at::Device device) {
  static const c10::Stream stream =
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return stream;
}

}  // namespace

at::Device resolve_device(std::string_view word, const RankEnvironment& environment) {
  if (word == "cpu") return at::kCPU;
  const Cuda& cuda = open_cuda();
  if (cuda.gpus == 0) {
    if (word == "gpu") throw UserError("device: gpu: " + cuda.problem + "; use cpu or auto");
    if (cuda.driver) log::warn("device: auto: the CPU computes: " + cuda.problem);
    return at::kCPU;
  }
  const bool own_gpu = cuda.gpus == 1 && environment.may_see_own_gpu;
  const int64_t index = own_gpu ? 0 : environment.local_rank;
  if (index >= cuda.gpus)
    throw UserError("LOCAL_RANK: " + std::to_string(index) + " has no GPU; this machine has " +
                    std::to_string(cuda.gpus));
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

Upload::Upload(at::Device device, const at::Tensor& tensor) : device_(device), tensor_(tensor) {
  if (device.is_cpu() || !tensor.is_cpu()) return;
  if (tensor.nbytes() <= most_staged_bytes) tensor_ = tensor.pin_memory();
  if (!tensor_.is_pinned()) return;
  const auto copying = copying_stream(device);
  const c10::StreamGuard guard(copying);
  tensor_ = queued_copy(device, tensor_);
  done_.emplace(device.type());
  done_->record(copying);
}

at::Tensor Upload::take() {
  const auto tensor = std::exchange(tensor_, {});
  if (!done_) return queued_copy(device_, tensor);
  const auto computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  done_->block(computing);
  tensor.record_stream(computing);
  return tensor;
}

at::Tensor copy_to(at::Device device, const at::Tensor& tensor) {
  return Upload(device, tensor).take();
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

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const OutOfMemory*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return true;
  if (dynamic_cast<const c10::Error*>(&error) == nullptr) return false;
  const std::string_view message = error.what();
  const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
  return says("CUDA error: out of memory") || says("CUBLAS_STATUS_ALLOC_FAILED") ||
         says("CUDNN_STATUS_ALLOC_FAILED") || says("ALLOCATION_FAILED") ||
         says("DefaultCPUAllocator: can't allocate memory");
}

void free_unused_memory(at::Device device) {
  if (device.is_cpu()) return;
  synchronize(device);
  at::getDeviceAllocator(device.type())->emptyCache();
}

void set_deterministic(bool deterministic) {
  auto& context = at::globalContext();
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  context.setBenchmarkLimitCuDNN(most_algorithms);
}

void expect_many_image_sizes() { at::globalContext().setBenchmarkLimitCuDNN(few_algorithms); }

AnyOrder::AnyOrder() : deterministic_(at::globalContext().deterministicAlgorithms()) {
  if (deterministic_) at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

AnyOrder::~AnyOrder() {
  if (deterministic_) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

}  // namespace composer
