// The communicator of several processes, on PyTorch's process groups.
#pragma once

#include <functional>
#include <memory>

#include "base/rank_environment.h"
#include "nn/distributed/ranks.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace composer {

class ProcessGroupCommunicator : public Communicator {
 public:
  virtual c10::intrusive_ptr<c10d::ProcessGroup> group() const = 0;

  /// Seconds that this rank has spent in calls, and in waiting for sums of gradients.
  double waited_seconds() const { return *waited_seconds_; }
  void add_wait(double seconds) { *waited_seconds_ += seconds; }

 protected:
  /// Shared with the communicators that part() makes.
  std::shared_ptr<double> waited_seconds_ = std::make_shared<double>(0);
};

/// See join_ranks; environment.size > 1. Ranks meet in a TCPStore, which rank 0 hosts unless the
/// launcher does.
std::shared_ptr<ProcessGroupCommunicator> join_process_group(const RankEnvironment& environment,
                                                             at::Device device,
                                                             double timeout_seconds);
/// The same with an existing store.
std::shared_ptr<ProcessGroupCommunicator> join_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const RankEnvironment& environment,
    at::Device device, double timeout_seconds);

/// Calls `collective`; throws LostRankError for the errors of a process group that has lost another
/// rank.
void with_other_ranks(const std::function<void()>& collective);

/// Seconds in which Gloo adds up this many bytes of float32 numbers over two ranks of this process,
/// once they are connected. RunError when they cannot connect, or the sum is wrong.
double time_local_sum(int64_t bytes);

}  // namespace composer
