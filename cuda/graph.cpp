// Training steps as CUDA graphs.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <functional>

#include "composer/run/step_recorder.h"

namespace composer::cuda {
namespace {

using c10::cuda::CUDAStream;

/// The memory pool that recordings share. LibTorch lets a graph join a pool only while another
/// graph uses it, so a new pool begins once all graphs are gone.
struct Pool {
  c10::MempoolId_t id = at::cuda::graph_pool_handle();
};

class CudaRecording : public Recording {
 public:
  explicit CudaRecording(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}

  void replay() override { graph_.replay(); }

  /// Begins a capture on the current stream. Loader threads use CUDA meanwhile, for page-locked
  /// memory, so only calls of this thread must not wait.
  void begin() { graph_.capture_begin(pool_->id, cudaStreamCaptureModeThreadLocal); }
  void end() { graph_.capture_end(); }
  void drop() { graph_.reset(); }

  const Pool& pool() const { return *pool_; }

 private:
  std::shared_ptr<Pool> pool_;
  at::cuda::CUDAGraph graph_;
};

/// Runs a cleanup after an error and drops the cleanup's own error.
void try_to(const std::function<void()>& work) noexcept {
  try {
    work();
  } catch (const std::exception&) {
  }
}

/// Releases the pool of a capture whose end failed: the driver has dropped the graph, but CUDAGraph
/// has not told LibTorch's allocators. An allocator that was told throws.
void release_pool(c10::MempoolId_t pool) noexcept {
  namespace device_memory = c10::cuda::CUDACachingAllocator;
  const auto device = c10::cuda::current_device();
  try_to([&] {
    device_memory::endAllocateToPool(device, pool);
    device_memory::releasePool(device, pool);
  });
  try_to([&] {
    auto* const host_memory = at::getHostAllocator(at::kCUDA);
    host_memory->end_allocate_to_pool(pool);
    host_memory->release_pool(pool);
  });
}

/// Makes a successful capture. Until one ends, LibTorch's generator takes every draw for a draw in
/// a capture.
void capture_anything() {
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const auto nothing = at::zeros({1}, at::Device(at::kCUDA, c10::cuda::current_device()));
  graph.capture_end();
}

/// Ends a failed capture on the current stream, so that other captures can begin there.
void abandon(std::unique_ptr<CudaRecording> recording) noexcept {
  try {
    return recording->end();
  } catch (const std::exception&) {
    // The capture's end failed; release its parts one by one.
  }
  release_pool(recording->pool().id);
  try_to([&] { recording->drop(); });  // if it ended but was not made ready to replay
  recording.release();                 // LibTorch may know its address
  try_to(capture_anything);
}

class CudaStepRecorder : public StepRecorder {
 public:
  void run(const std::function<void()>& work) override {
    const CUDAStream outer = c10::cuda::getCurrentCUDAStream();
    wait(stream_, outer);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    wait(outer, stream_);
  }

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    free_memory();  // the pool needs as much again
    auto pool = pool_.lock();
    if (pool == nullptr) pool_ = pool = std::make_shared<Pool>();
    auto recording = std::make_unique<CudaRecording>(std::move(pool));
    const CUDAStream outer = c10::cuda::getCurrentCUDAStream();
    const c10::cuda::CUDAStreamGuard guard(stream_);
    try {
      recording->begin();
      work();
      recording->end();
    } catch (...) {
      abandon(std::move(recording));
      pool_.reset();  // its state is unknown
      throw;
    }
    wait(outer, stream_);  // a replay runs after the work that begin() queued
    return recording;
  }

  void free_memory() override {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

 private:
  /// Work queued on `later` from now on waits for the work on `earlier`.
  static void wait(const CUDAStream& later, const CUDAStream& earlier) {
    c10::Event event(c10::DeviceType::CUDA);
    event.record(earlier.unwrap());
    event.block(later.unwrap());
  }

  CUDAStream stream_ =
      c10::cuda::getStreamFromPool();  ///< a capture needs a stream other than the default one
  std::weak_ptr<Pool> pool_;
};

}  // namespace
}  // namespace composer::cuda

extern "C" composer::StepRecorder* composer_step_recorder() {
  return new composer::cuda::CudaStepRecorder;
}
