// Stands in for libcomposer_cuda.so: what NCCL does between GPUs, done by Gloo on their memory,
// which is the host's. Like NCCL it knows tensors of GPUs alone.
#include "nn/distributed/nccl.h"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/stand_in/host.h"
#include "tests/stand_in/log.h"

namespace composer::stand_in {
namespace {

using c10d::Work;

std::vector<at::Tensor> on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> hosts;
  for (const auto& tensor : tensors) {
    TORCH_CHECK(tensor.is_cuda(), "NCCL: a tensor of the CPU");
    hosts.push_back(stand_in::on_host(tensor));
  }
  return hosts;
}

/// Its results are the tensors of GPUs.
class Done : public Work {
 public:
  explicit Done(const std::vector<at::Tensor>& tensors) : future_(future_of(tensors)) {
    future_->markCompleted(c10::IValue(tensors));
    finish();
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  static c10::intrusive_ptr<c10::ivalue::Future> future_of(const std::vector<at::Tensor>& tensors) {
    return c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()),
        std::vector<c10::Device>{tensors.front().device()});
  }
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class Nccl : public c10d::Backend {
 public:
  Nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
       std::chrono::milliseconds timeout)
      : Backend(rank, size) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    note("nccl");
  }
  const std::string getBackendName() const override { return "nccl"; }

  c10::intrusive_ptr<Work> allreduce(std::vector<at::Tensor>& tensors,
                                     const c10d::AllreduceOptions& options) override {
    auto hosts = on_host(tensors);
    gloo_->allreduce(hosts, options)->wait();
    return c10::make_intrusive<Done>(tensors);
  }
  c10::intrusive_ptr<Work> broadcast(std::vector<at::Tensor>& tensors,
                                     const c10d::BroadcastOptions& options) override {
    auto hosts = on_host(tensors);
    gloo_->broadcast(hosts, options)->wait();
    return c10::make_intrusive<Done>(tensors);
  }
  c10::intrusive_ptr<Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::AllgatherOptions& options) override {
    auto hosts = on_host({output, input});
    gloo_->_allgather_base(hosts[0], hosts[1], options)->wait();
    return c10::make_intrusive<Done>(std::vector<at::Tensor>{output});
  }
  void shutdown() override { note("nccl: shutdown"); }
  void abort() override { note("nccl: abort"); }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

}  // namespace
}  // namespace composer::stand_in

extern "C" c10d::Backend* composer_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<composer::stand_in::Nccl>(store, rank, size, timeout).release();
}
