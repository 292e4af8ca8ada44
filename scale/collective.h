// How long it takes what GPUs send each other, by latency and bandwidth of the links (Hockney's
// model).
#pragma once

#include "scale/hardware.h"

namespace composer {

struct Cluster {
  int64_t gpus = 1;
  int64_t per_machine = 1;  ///< GPUs of a machine; `gpus` is a multiple of it, or less
  Link inside;              ///< of a GPU to the others of its machine
  Link between;             ///< of a GPU's share of its machine's network cards
  int64_t of_image = 1;     ///< neighbouring GPUs that have the rows of the same images

  int64_t in_machine() const { return gpus < per_machine ? gpus : per_machine; }
  int64_t machines() const { return gpus / in_machine(); }
  /// Whether some GPUs that have rows of the same images are of several machines.
  bool rows_leave_machines() const { return in_machine() % of_image != 0; }
  /// Of a GPU to the others that have rows of its images, the slowest of them.
  const Link& to_rows() const { return rows_leave_machines() ? between : inside; }
};

/// What GPUs send each other at one point of a step.
struct Transfer {
  enum class Kind {
    sums,       ///< of gradients, added up for all GPUs
    gradients,  ///< added up for the GPUs that they belong to
    weights,    ///< from the GPUs that they belong to, to all
    rows,       ///< between the GPUs that have rows of the same images
  };
  Kind kind = Kind::sums;
  double bytes = 0;     ///< of `rows` those that the GPU which has most to do gives or takes
  double messages = 1;  ///< of `sums` one; of the others so many, one after another
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

/// `messages` broadcasts, or sums to one GPU each, one after another, of `bytes` together. Each
/// goes from GPU to GPU, machine after machine, in chunks, in a pipeline, and leaves a machine by
/// all of its cards at once (NCCL's src/device/broadcast.h, reduce.h): messages * ((machines - 1)
/// latency between + (gpus - machines) latency inside) + bytes / min(bandwidth inside, GPUs of a
/// machine * bandwidth between).
double chain_seconds(double bytes, double messages, const Cluster& cluster);

double transfer_seconds(const Transfer& transfer, const Cluster& cluster);

/// Of one GPU's card, and of one GPU's link in its machine, each way, in an all-reduce.
double bytes_between(double bytes, const Cluster& cluster);
double bytes_inside(double bytes, const Cluster& cluster);
/// The same of any transfer; the rows that leave a machine, of one of its GPUs, are shared out.
double bytes_between(const Transfer& transfer, const Cluster& cluster);
double bytes_inside(const Transfer& transfer, const Cluster& cluster);

}  // namespace composer
