// The communicator of several processes: PyTorch's process groups.
#pragma once

#include <functional>
#include <memory>

#include "composer/distributed/rendezvous.h"
#include "composer/ranks.h"

namespace c10d {
class ProcessGroup;
}

namespace composer {

class ProcessGroupCommunicator : public Communicator {
 public:
  virtual c10::intrusive_ptr<c10d::ProcessGroup> group() const = 0;
};

/// See join_ranks; place.size > 1.
std::shared_ptr<ProcessGroupCommunicator> join_process_group(const Place& place, at::Device device,
                                                             double timeout_seconds);

/// Calls `collective`; PeerError in place of what a process group throws.
void with_peers(const std::function<void()>& collective);

}  // namespace composer
