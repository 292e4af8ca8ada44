#include "nn/distributed/rendezvous.h"

#include "nn/distributed/process_group.h"

namespace composer {

Ranks join_ranks(const Place& place, at::Device device, double timeout_seconds) {
  if (place.size == 1) return {};
  return Ranks(join_process_group(place, device, timeout_seconds));
}

}  // namespace composer
