// The time of collectives from the links' latency and bandwidth (Hockney's model).
#pragma once

#include "scale/hardware.h"

namespace composer {

struct Cluster {
  int64_t gpus = 1;
  int64_t per_machine = 1;  ///< GPUs in a machine; `gpus` is a multiple of it, or less
  Link inside;              ///< link from a GPU to the others in its machine
  Link between;             ///< a GPU's share of its machine's network cards
  int64_t of_image = 1;     ///< neighbouring GPUs that share images (spatial_ranks)

  int64_t in_machine() const { return gpus < per_machine ? gpus : per_machine; }
  int64_t machines() const { return gpus / in_machine(); }
  /// Whether GPUs in different machines share images.
  bool rows_leave_machines() const { return in_machine() % of_image != 0; }
  /// The slowest link from a GPU to the others that share its images.
  const Link& to_rows() const { return rows_leave_machines() ? between : inside; }
};

/// A communication of GPUs at one point of a step.
struct Transfer {
  enum class Kind {
    sums,       ///< all-reduce of gradients
    gradients,  ///< reduce of gradients to the ranks that own them
    weights,    ///< broadcast of weights from the ranks that own them
    rows,       ///< halos and statistics between GPUs that share images
  };
  Kind kind = Kind::sums;
  double bytes = 0;     ///< for `rows`, the larger of sent and received bytes of the busiest GPU
  double messages = 1;  ///< messages one after another; `sums` have one
};

/// `option` names the number of GPUs in messages. UserError if the GPUs do not fill machines.
Cluster cluster_of(const std::string& option, int64_t gpus, const Gpu& gpu,
                   const Interconnect& network, int64_t cards);

/// 2 (n - 1) (latency + bytes / n / bandwidth): Patarasuk and Yuan 2009.
double ring_seconds(double bytes, int64_t members, const Link& link);

/// Two binary trees, each of half the bytes, which keep both directions busy, up and down in a
/// pipeline: 2 floor(log2 n) latency + 2 bytes / bandwidth (Sanders, Speck and Traeff 2009; NCCL
/// 2.4).
double tree_seconds(double bytes, int64_t members, const Link& link);

/// A reduce-scatter of `bytes` around a ring in each machine, an all-reduce of each part over the
/// machines by a ring or a tree, whichever is faster, and an all-gather in each machine.
double all_reduce_seconds(double bytes, const Cluster& cluster);

/// `messages` broadcasts or reduces, one after another, of `bytes` in total. Each goes from GPU to
/// GPU, machine after machine, in a pipeline of chunks, and leaves a machine by all of its cards at
/// once (NCCL's src/device/broadcast.h, reduce.h): messages * ((machines - 1) latency between +
/// (gpus - machines) latency inside) + bytes / min(bandwidth inside, GPUs of a machine * bandwidth
/// between).
double chain_seconds(double bytes, double messages, const Cluster& cluster);

double transfer_seconds(const Transfer& transfer, const Cluster& cluster);

/// The bytes of an all-reduce, in each direction, over one GPU's share of the cards and over its
/// link in the machine.
double bytes_between(double bytes, const Cluster& cluster);
double bytes_inside(double bytes, const Cluster& cluster);
/// The bytes of any transfer. Rows that leave a machine are divided among its GPUs.
double bytes_between(const Transfer& transfer, const Cluster& cluster);
double bytes_inside(const Transfer& transfer, const Cluster& cluster);

}  // namespace composer
