// Binds the ranks of a machine to processors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/launch_options.h"

namespace composer {

/// The numbers of each rank's processors. Bind::cores: equal shares of neighbouring cores, among
/// those that this process may use. Bind::numa: all processors of one NUMA node, the node of the
/// rank's GPU if there are GPUs. gpus: PCI addresses (gpu_addresses()), in the order of the ranks.
/// UserError when the machine does not expose its topology.
std::vector<std::vector<int>> processors_of_ranks(Bind bind, int64_t ranks,
                                                  const std::vector<std::string>& gpus);

/// Binds the calling thread and the processes that it starts while this object lives.
class BoundThread {
 public:
  explicit BoundThread(const std::vector<int>& processors);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace composer
