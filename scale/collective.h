// How long sums over GPUs take, by latency and bandwidth of the links (Hockney's model).
#pragma once

#include "scale/hardware.h"

namespace composer {

struct Cluster {
  int64_t gpus = 1;
  int64_t per_machine = 1;  ///< GPUs of a machine; `gpus` is a multiple of it, or less
  Link inside;              ///< of a GPU to the others of its machine
  Link between;             ///< of a GPU's share of its machine's network cards

  int64_t in_machine() const { return gpus < per_machine ? gpus : per_machine; }
  int64_t machines() const { return gpus / in_machine(); }
};

/// option: what names the number of GPUs, for messages. UserError where they do not fill machines.
Cluster cluster_of(const std::string& option, int64_t gpus, const Gpu& gpu,
                   const Interconnect& network, int64_t cards);

/// Half a ring all-reduce: each of n members ends with a summed part of `bytes`, or with all parts:
/// (n - 1) (latency + bytes / n / bandwidth).
double half_ring_seconds(double bytes, int64_t members, const Link& link);

/// 2 (n - 1) (latency + bytes / n / bandwidth): Patarasuk and Yuan 2009.
double ring_seconds(double bytes, int64_t members, const Link& link);

/// Two binary trees, each of half the bytes, which keep both directions busy, up and down in a
/// pipeline: 2 floor(log2 n) latency + 2 bytes / bandwidth (Sanders, Speck and Traeff 2009; NCCL
/// 2.4).
double tree_seconds(double bytes, int64_t members, const Link& link);

/// Within each machine GPUs sum parts of `bytes` around a ring, each part is summed over the
/// machines around a ring or up a tree, whichever is faster, and goes around each machine.
double all_reduce_seconds(double bytes, const Cluster& cluster);

/// Of one GPU's card, and of one GPU's link in its machine, each way, in an all-reduce.
double bytes_between(double bytes, const Cluster& cluster);
double bytes_inside(double bytes, const Cluster& cluster);

}  // namespace composer
