// Which processors the ranks of a machine run on.
#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

#include "cli/launch_options.h"

namespace composer {

/// Of each rank. cores: neighbouring cores in equal shares, of those that this process may use.
/// numa: all of a memory node: that of the rank's GPU, where there are GPUs. UserError where the
/// machine does not tell.
std::vector<cpu_set_t> processors_of_ranks(Bind bind, int64_t ranks);

/// Binds the calling thread, and with it the processes that it starts, for its lifetime.
class BoundThread {
 public:
  explicit BoundThread(const cpu_set_t& processors);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace composer
