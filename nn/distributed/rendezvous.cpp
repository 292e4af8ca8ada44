#include "nn/distributed/rendezvous.h"

#include "nn/distributed/process_group.h"

namespace composer {

Ranks join_ranks(const RankEnvironment& environment, at::Device device, double timeout_seconds) {
  if (environment.size == 1) return {};
  return Ranks(join_process_group(environment, device, timeout_seconds));
}

}  // namespace composer
