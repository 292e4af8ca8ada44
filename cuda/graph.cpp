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

/// Memory that recordings share. LibTorch lets a pool be joined only while some graph has it, so
/// that a new one begins where all are gone.
struct Pool {
  c10::MempoolId_t id = at::cuda::graph_pool_handle();
};

class CudaRecording : public Recording {
 public:
  explicit CudaRecording(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}

  void replay() override { graph_.replay(); }

  /// On the current stream. Loader threads use CUDA meanwhile, for page-locked memory: only what
  /// this thread does must not wait.
  void begin() { graph_.capture_begin(pool_->id, cudaStreamCaptureModeThreadLocal); }
  void end() { graph_.capture_end(); }
  void drop() { graph_.reset(); }

  const Pool& pool() const { return *pool_; }

 private:
  std::shared_ptr<Pool> pool_;
  at::cuda::CUDAGraph graph_;
};

/// Tidies up after an error, which is the one to report.
void try_to(const std::function<void()>& work) noexcept {
  try {
    work();
  } catch (const std::exception&) {
  }
}

/// What CUDAGraph does at the end of a capture and when it is destroyed, for one whose end failed:
/// the driver has dropped the graph, and LibTorch's allocators were not told. One that was told
/// throws.
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

/// Captures something. LibTorch's generator takes every draw for one of a capture until one ends
/// well.
void capture_anything() {
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const auto nothing = at::zeros({1}, at::Device(at::kCUDA, c10::cuda::current_device()));
  graph.capture_end();
}

/// After a failure: ends the capture on the current stream, which lets others begin there.
void abandon(std::unique_ptr<CudaRecording> recording) noexcept {
  try {
    return recording->end();
  } catch (const std::exception&) {
    // Then by hand.
  }
  release_pool(recording->pool().id);
  try_to([&] { recording->drop(); });  // where it ended and was not made ready to replay
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
    wait(outer, stream_);  // a replay comes after what begin() queued
    return recording;
  }

  void free_memory() override {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

 private:
  /// What is queued on `later` from now on comes after what is on `earlier`.
  static void wait(const CUDAStream& later, const CUDAStream& earlier) {
    c10::Event event(c10::DeviceType::CUDA);
    event.record(earlier.unwrap());
    event.block(later.unwrap());
  }

  CUDAStream stream_ = c10::cuda::getStreamFromPool();  ///< which the default one cannot be
  std::weak_ptr<Pool> pool_;
};

}  // namespace
}  // namespace composer::cuda

extern "C" composer::StepRecorder* composer_step_recorder() {
  return new composer::cuda::CudaStepRecorder;
}
