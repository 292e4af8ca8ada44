// Which processors the ranks of a machine run on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/launch_options.h"

namespace composer {

/// The numbers of each rank's. cores: neighbouring cores in equal shares, of those that this
/// process may use. numa: all of a memory node: that of the rank's GPU, where there are GPUs. gpus:
/// where they are (gpu_addresses()), the first rank's first. UserError where the machine does not
/// tell.
std::vector<std::vector<int>> processors_of_ranks(Bind bind, int64_t ranks,
                                                  const std::vector<std::string>& gpus);

/// Binds the calling thread, and with it the processes that it starts, for its lifetime.
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
