// The communicator of several processes: PyTorch's process groups.
#pragma once

#include <functional>
#include <memory>

#include "nn/distributed/ranks.h"
#include "nn/distributed/rendezvous.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace composer {

class ProcessGroupCommunicator : public Communicator {
 public:
  virtual c10::intrusive_ptr<c10d::ProcessGroup> group() const = 0;

  /// Seconds that this rank has spent in calls, and in waiting for the sums of gradients.
  double waited_seconds() const { return *waited_seconds_; }
  void add_wait(double seconds) { *waited_seconds_ += seconds; }

 protected:
  /// Parts of these ranks count with them.
  std::shared_ptr<double> waited_seconds_ = std::make_shared<double>(0);
};

/// See join_ranks; place.size > 1. Ranks meet through a TCPStore, which rank 0 hosts unless the
/// launcher does.
std::shared_ptr<ProcessGroupCommunicator> join_process_group(const RankEnvironment& environment,
                                                             at::Device device,
                                                             double timeout_seconds);
/// The same through a store that is there.
std::shared_ptr<ProcessGroupCommunicator> join_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const RankEnvironment& environment,
    at::Device device, double timeout_seconds);

/// Calls `collective`; LostRankError in place of what a process group throws where another rank is
/// lost.
void with_other_ranks(const std::function<void()>& collective);

}  // namespace composer
