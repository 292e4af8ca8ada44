#include "scale/collective.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace composer {

Cluster cluster_of(const std::string& option, int64_t gpus, const Gpu& gpu,
                   const Interconnect& network, int64_t cards) {
  if (gpus > gpu.per_machine && gpus % gpu.per_machine != 0)
    throw UserError(option + ": " + std::to_string(gpus) + " GPUs do not fill machines of " +
                    std::to_string(gpu.per_machine) + "; give a multiple, for instance " +
                    std::to_string((gpus / gpu.per_machine + 1) * gpu.per_machine));
  auto between = network.card;
  between.bytes_per_s *= static_cast<double>(cards) / static_cast<double>(gpu.per_machine);
  return {gpus, gpu.per_machine, gpu.inside, between};
}

double ring_seconds(double bytes, int64_t members, const Link& link) {
  const auto n = static_cast<double>(members);
  return members < 2 ? 0 : 2 * (n - 1) * (link.latency + bytes / n / link.bytes_per_s);
}

double tree_seconds(double bytes, int64_t members, const Link& link) {
  if (members < 2) return 0;
  const auto levels = static_cast<double>(std::bit_width(static_cast<uint64_t>(members)) - 1);
  return 2 * (levels * link.latency + bytes / link.bytes_per_s);
}

double all_reduce_seconds(double bytes, const Cluster& cluster) {
  const int64_t inside = cluster.in_machine(), machines = cluster.machines();
  const double within = inside < 2 ? 0 : ring_seconds(bytes, inside, cluster.inside);
  if (machines < 2) return within;
  const double part = bytes / static_cast<double>(inside);
  return within + std::min(ring_seconds(part, machines, cluster.between),
                           tree_seconds(part, machines, cluster.between));
}

double chain_seconds(double bytes, double messages, const Cluster& cluster) {
  const int64_t inside = cluster.in_machine(), machines = cluster.machines();
  const double latency = static_cast<double>(machines - 1) * cluster.between.latency +
                         static_cast<double>(cluster.gpus - machines) * cluster.inside.latency;
  const double cards = static_cast<double>(inside) * cluster.between.bytes_per_s;
  const double slowest = machines < 2 ? cluster.inside.bytes_per_s
                         : inside < 2 ? cards
                                      : std::min(cluster.inside.bytes_per_s, cards);
  return cluster.gpus < 2 ? 0 : messages * latency + bytes / slowest;
}

double transfer_seconds(const Transfer& transfer, const Cluster& cluster) {
  switch (transfer.kind) {
    case Transfer::Kind::sums:
      return all_reduce_seconds(transfer.bytes, cluster);
    case Transfer::Kind::gradients:
    case Transfer::Kind::weights:
      return chain_seconds(transfer.bytes, transfer.messages, cluster);
    case Transfer::Kind::rows:
      return transfer.messages * cluster.to_rows().latency +
             transfer.bytes / cluster.to_rows().bytes_per_s;
  }
  return 0;
}

double bytes_between(double bytes, const Cluster& cluster) {
  const auto inside = static_cast<double>(cluster.in_machine()),
             machines = static_cast<double>(cluster.machines());
  return 2 * (machines - 1) / machines * bytes / inside;
}

double bytes_inside(double bytes, const Cluster& cluster) {
  const auto inside = static_cast<double>(cluster.in_machine());
  return 2 * (inside - 1) / inside * bytes;
}

double bytes_between(const Transfer& transfer, const Cluster& cluster) {
  if (transfer.kind == Transfer::Kind::rows)
    return cluster.rows_leave_machines()
               ? transfer.bytes / static_cast<double>(cluster.in_machine())
               : 0;
  const double all_reduced = bytes_between(transfer.bytes, cluster);
  return transfer.kind == Transfer::Kind::sums ? all_reduced : all_reduced / 2;
}

double bytes_inside(const Transfer& transfer, const Cluster& cluster) {
  if (transfer.kind == Transfer::Kind::rows) return cluster.in_machine() > 1 ? transfer.bytes : 0;
  const double all_reduced = bytes_inside(transfer.bytes, cluster);
  return transfer.kind == Transfer::Kind::sums ? all_reduced : all_reduced / 2;
}

}  // namespace composer
