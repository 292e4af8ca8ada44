#include "nn/distributed/process_group.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "nn/distributed/job_store.h"
#include "nn/distributed/nccl.h"

namespace composer {
namespace {

using std::chrono::milliseconds;

constexpr size_t coalesced_bytes = 25 << 20;

milliseconds to_milliseconds(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1000));
}

using Gloo = c10d::ProcessGroupGloo;

/// Gloo's network interfaces: those named in GLOO_SOCKET_IFNAME, else loopback on one machine, else
/// the interface towards the store's host.
c10::intrusive_ptr<Gloo::Options> gloo_options(const RankEnvironment& environment,
                                               milliseconds timeout) {
  auto options = Gloo::Options::create(timeout);
  const char* const names = std::getenv("GLOO_SOCKET_IFNAME");
  std::istringstream list(names == nullptr ? "" : names);
  for (std::string name; std::getline(list, name, ',');)
    options->devices.push_back(Gloo::createDeviceForInterface(name));
  if (options->devices.empty())
    options->devices.push_back(Gloo::createDeviceForHostname(
        environment.size == environment.local_size
            ? "127.0.0.1"
            : own_address_towards(environment.address, environment.port)));
  return options;
}

/// gloo_options() from a thread of SCHED_BATCH, which Gloo's threads inherit. Gloo's threads poll a
/// socket without pause while another thread holds its lock: as SCHED_BATCH they do not interrupt
/// that thread when data arrive, which a process with few cores would wait for.
c10::intrusive_ptr<Gloo::Options> yielding_gloo_options(const RankEnvironment& environment,
                                                        milliseconds timeout) {
  const auto make = [&] {
    const sched_param none{};
    if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
    return gloo_options(environment, timeout);
  };
  return std::async(std::launch::async, make).get();
}

/// Destroys process groups in detached threads: Gloo's destructor waits for running collectives,
/// and so for ranks that wait for this one to end. The end of the process waits a moment for these
/// threads, since it destroys parts of LibTorch that they need.
class GroupCloser {
 public:
  ~GroupCloser() {
    std::unique_lock lock(closing_->mutex);
    closing_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return closing_->count == 0; });
  }

  void close(c10::intrusive_ptr<c10d::ProcessGroup> group) {
    closing_->add(1);
    auto* const released = group.release();
    try {
      std::thread([closing = closing_, released] {
        c10::intrusive_ptr<c10d::ProcessGroup>::reclaim(released).reset();
        closing->add(-1);
      }).detach();
    } catch (const std::system_error&) {
      closing_->add(-1);  // without a thread the group stays until the process ends
    }
  }

 private:
  struct Closing {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t count = 0;

    void add(int64_t more) {
      const std::lock_guard lock(mutex);
      count += more;
      changed.notify_all();
    }
  };
  std::shared_ptr<Closing> closing_ = std::make_shared<Closing>();
};

GroupCloser& group_closer() {
  static GroupCloser closer;
  return closer;
}

class Group : public ProcessGroupCommunicator {
 public:
  Group(const c10::intrusive_ptr<c10d::Store>& store, const RankEnvironment& environment,
        at::Device device, milliseconds timeout)
      : store_(store), environment_(environment), device_(device), timeout_(timeout) {
    const auto rank = static_cast<int>(environment.rank), size = static_cast<int>(environment.size);
    if (device.is_cuda()) {
      at::accelerator::setDeviceIndex(device.index());
      nccl_ = open_nccl(c10::make_intrusive<c10d::PrefixStore>("nccl", store), rank, size, timeout);
    }
    const auto options = yielding_gloo_options(environment, timeout);
    with_other_ranks([&] {
      group_ = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
      using Type = c10d::ProcessGroup::BackendType;
      group_->setBackend(
          at::kCPU, Type::GLOO,
          c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank,
                                    size, options));
      group_->setDefaultBackend(Type::GLOO);
      if (nccl_) group_->setBackend(at::kCUDA, Type::NCCL, nccl_);
      barrier();
    });
  }

  ~Group() override {
    if (std::uncaught_exceptions() > 0) abort();
    close([](c10d::Backend& nccl) { nccl.shutdown(); });
    if (aborted_) group_closer().close(std::move(group_));
  }

  void abort() override {
    aborted_ = true;
    close([](c10d::Backend& nccl) { nccl.abort(); });
  }

  int64_t rank() const override { return group_->getRank(); }
  int64_t size() const override { return group_->getSize(); }

  void sum(const std::vector<at::Tensor>& tensors) override {
    run("sum over ranks", [&] {
      for (const auto& tensor : tensors) {
        std::vector<at::Tensor> one{tensor};
        group_->allreduce(one)->wait();
      }
    });
  }

  void broadcast(const std::vector<at::Tensor>& tensors, int64_t from) override {
    run("broadcast", [&] {
      c10d::broadcast_coalesced(group_, tensors, coalesced_bytes, static_cast<int>(from));
    });
  }

  at::Tensor gather(const at::Tensor& tensor) override {
    auto sizes = tensor.sizes().vec();
    sizes.insert(sizes.begin(), size());
    auto all = at::empty(sizes, tensor.options());
    run("gather", [&] {
      auto mine = tensor.contiguous().view(-1);
      auto flat = all.view(-1);
      group_->_allgather_base(flat, mine)->wait();
    });
    return all;
  }

  void exchange(const std::vector<at::Tensor>& sent,
                const std::vector<at::Tensor>& received) override {
    const at::NoGradGuard no_grad;
    const auto bytes = [](const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); };
    std::vector<at::Tensor> given;
    std::vector<int64_t> give, take;
    for (const auto& tensor : sent)
      given.push_back(bytes(tensor)), give.push_back(given.back().numel());
    for (const auto& tensor : received) take.push_back(static_cast<int64_t>(tensor.nbytes()));
    auto outgoing = at::cat(given);
    const int64_t total = std::accumulate(take.begin(), take.end(), int64_t{0});
    auto incoming = at::empty({total}, outgoing.options());
    run("exchange of rows", [&] { group_->alltoall_base(incoming, outgoing, take, give)->wait(); });
    const auto parts = incoming.split_with_sizes(take);
    for (size_t i = 0; i < received.size(); ++i)
      if (take[i] > 0) bytes(received[i]).copy_(parts[i]);
  }

  std::shared_ptr<Communicator> part(const std::vector<int64_t>& ranks,
                                     const std::string& name) override {
    auto environment = environment_;
    const auto own = std::ranges::find(ranks, environment.rank);
    environment.rank = own - ranks.begin(), environment.size = std::ssize(ranks);
    environment.local_size = environment_.size == environment_.local_size ? environment.size : 1;
    auto part = std::make_shared<Group>(
        c10::make_intrusive<c10d::PrefixStore>(name + "/" + std::to_string(ranks.front()), store_),
        environment, device_, timeout_);
    part->waited_seconds_ = waited_seconds_;
    return part;
  }

  void barrier() override {
    run("barrier", [&] {
      std::vector<at::Tensor> one{at::zeros({1})};
      group_->allreduce(one)->wait();
    });
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group() const override { return group_; }

 private:
  template <class How>
  void close(const How& how) {
    const auto nccl = std::exchange(nccl_, nullptr);
    if (!nccl) return;
    try {
      how(*nccl);
    } catch (const std::exception& error) {
      log::warn(std::string("NCCL did not close: ") + error.what());
    }
  }

  template <class Collective>
  void run(const char* range, const Collective& collective) {
    RECORD_USER_SCOPE(range);
    const at::NoGradGuard no_grad;
    const double begin = steady_seconds();
    with_other_ranks(collective);
    add_wait(steady_seconds() - begin);
  }

  c10::intrusive_ptr<c10d::Store> store_;
  RankEnvironment environment_;
  at::Device device_;
  milliseconds timeout_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  ///< null on CPUs, and once closed
  bool aborted_ = false;
};

template <class... Errors>
bool is_any_of(const std::exception& error) {
  return ((dynamic_cast<const Errors*>(&error) != nullptr) || ...);
}

}  // namespace

/// Gloo's exceptions are neither LibTorch's nor composer's.
void with_other_ranks(const std::function<void()>& collective) {
  const std::string what = "another rank has ended, or does not answer: ";
  try {
    collective();
  } catch (const c10::DistError& error) {
    throw LostRankError(what + error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (is_any_of<c10::Error, UserError, RunError, std::bad_alloc, std::logic_error>(error)) throw;
    throw LostRankError(what + error.what());
  }
}

std::shared_ptr<ProcessGroupCommunicator> join_process_group(const RankEnvironment& environment,
                                                             at::Device device,
                                                             double timeout_seconds) {
  const auto meeting = JobStore::of(environment, timeout_seconds);
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "composer/" + std::to_string(environment.restart),
      c10::intrusive_ptr<c10d::Store>::reclaim_copy(&meeting.store()));
  return join_process_group(store, environment, device, timeout_seconds);
}

std::shared_ptr<ProcessGroupCommunicator> join_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const RankEnvironment& environment,
    at::Device device, double timeout_seconds) {
  return std::make_shared<Group>(store, environment, device, to_milliseconds(timeout_seconds));
}

Ranks join_ranks(const RankEnvironment& environment, at::Device device, double timeout_seconds) {
  if (environment.size == 1) return {};
  return Ranks(join_process_group(environment, device, timeout_seconds));
}

double time_local_sum(int64_t bytes) {
  constexpr double timeout_seconds = 20;
  constexpr int64_t ranks = 2;
  // LibTorch's flight recorder is one per process and does not allow several ranks in it.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto take_part = [&](int64_t rank) {
    RankEnvironment environment;
    environment.rank = environment.local_rank = rank,
    environment.size = environment.local_size = ranks;
    const auto group = join_process_group(store, environment, at::kCPU, timeout_seconds);
    const auto numbers = at::ones({std::max<int64_t>(bytes / 4, 1)});
    group->sum({numbers});
    group->barrier();
    const double begin = steady_seconds();
    group->sum({numbers});
    const double seconds = steady_seconds() - begin;
    if (numbers[0].item<float>() != ranks * ranks) throw RunError("Gloo's sum is wrong");
    return seconds;
  };
  auto other = std::async(std::launch::async, take_part, 1);
  const double seconds = take_part(0);
  return std::max(seconds, other.get());
}

}  // namespace composer
