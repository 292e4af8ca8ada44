// How a process finds the other ranks of its run.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "composer/ranks.h"

namespace composer {

/// The place of a process among the ranks, as whoever started it says.
struct Place {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< on this machine
  int64_t node_rank = 0;                   ///< of this machine
  std::string address = "127.0.0.1";       ///< of the machine that the ranks meet at
  uint16_t port = 29500;
  bool store_is_hosted = false;  ///< by the launcher; else rank 0 hosts it
  int64_t restart = 0;           ///< how often all ranks have been started again

  bool operator==(const Place&) const = default;
};

/// From RANK, WORLD_SIZE and the others that this program's launcher and torchrun set; one rank
/// where they are not set. UserError naming a variable that is missing or makes no sense.
Place place_of_process();

/// Meets the other ranks: Gloo between CPUs and, where `device` is a GPU, NCCL between those.
/// timeout_seconds: of the meeting and of every call later. Returns once all are there. For one
/// rank nothing is opened. RunError when they do not come.
Ranks join_ranks(const Place& place, at::Device device, double timeout_seconds);

}  // namespace composer
