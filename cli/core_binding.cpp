#include "cli/core_binding.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include "composer/error.h"

namespace composer {
namespace {

constexpr int display_class = 0x03, nvidia = 0x10de;  // of PCI

void need(bool succeeded, const std::string& what) {
  if (!succeeded) throw UserError("--bind: " + what + ": " + std::strerror(errno));
}

struct Free {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, Free>;
using Set = std::unique_ptr<hwloc_bitmap_s, Free>;

/// What this process may use of the machine, its GPUs included.
Topology topology_of_process() {
  hwloc_topology_t made = nullptr;
  need(hwloc_topology_init(&made) == 0, "no look at the machine");
  Topology topology(made);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  need(hwloc_topology_load(made) == 0, "no look at the machine");
  const Set allowed(hwloc_bitmap_alloc());
  need(hwloc_get_cpubind(made, allowed.get(), HWLOC_CPUBIND_THREAD) == 0, "no look at the cores");
  need(hwloc_topology_restrict(made, allowed.get(), 0) == 0, "no look at the cores");
  return topology;
}

cpu_set_t processors(const Topology& topology, hwloc_const_cpuset_t set) {
  cpu_set_t all;
  need(hwloc_cpuset_to_glibc_sched_affinity(topology.get(), set, &all, sizeof all) == 0 &&
           CPU_COUNT(&all) > 0,
       "no processors are there for a rank");
  return all;
}

std::vector<cpu_set_t> shares_of_cores(const Topology& topology, int64_t ranks) {
  auto root = hwloc_get_root_obj(topology.get());
  std::vector<hwloc_cpuset_t> sets(static_cast<size_t>(ranks));
  need(hwloc_distrib(topology.get(), &root, 1, sets.data(), static_cast<unsigned>(ranks), INT_MAX,
                     0) == 0,
       "the cores cannot be shared");
  const std::vector<Set> owners(sets.begin(), sets.end());
  std::vector<cpu_set_t> shares;
  for (const auto& set : owners) shares.push_back(processors(topology, set.get()));
  return shares;
}

/// The processors beside each GPU that CUDA_VISIBLE_DEVICES shows, in its order.
std::vector<hwloc_const_cpuset_t> beside_gpus(const Topology& topology) {
  std::vector<hwloc_const_cpuset_t> all, visible;
  for (hwloc_obj_t device = nullptr;
       (device = hwloc_get_next_pcidev(topology.get(), device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    if (pci.class_id >> 8 == display_class && pci.vendor_id == nvidia)
      all.push_back(hwloc_get_non_io_ancestor_obj(topology.get(), device)->cpuset);
  }
  const char* const shown = std::getenv("CUDA_VISIBLE_DEVICES");
  if (shown == nullptr) return all;
  std::istringstream list(shown);
  for (size_t index = 0; list >> index && index < all.size(); list.ignore(1))
    visible.push_back(all[index]);
  return visible;
}

std::vector<cpu_set_t> nodes_of_ranks(const Topology& topology, int64_t ranks) {
  auto nodes = beside_gpus(topology);
  const bool of_gpus = !nodes.empty();
  if (!of_gpus)
    for (hwloc_obj_t node = nullptr;
         (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;)
      if (!hwloc_bitmap_iszero(node->cpuset)) nodes.push_back(node->cpuset);
  if (nodes.empty()) throw UserError("--bind: numa: this machine tells of no memory nodes");
  std::vector<cpu_set_t> chosen;
  const size_t count = static_cast<size_t>(ranks);
  for (size_t i = 0; i < count; ++i)
    chosen.push_back(processors(
        topology,
        nodes[of_gpus || count < nodes.size() ? i % nodes.size() : i * nodes.size() / count]));
  return chosen;
}

}  // namespace

std::vector<cpu_set_t> processors_of_ranks(Bind bind, int64_t ranks) {
  const auto topology = topology_of_process();
  return bind == Bind::cores ? shares_of_cores(topology, ranks) : nodes_of_ranks(topology, ranks);
}

BoundThread::BoundThread(const cpu_set_t& processors) {
  need(::sched_getaffinity(0, sizeof before_, &before_) == 0 &&
           ::sched_setaffinity(0, sizeof processors, &processors) == 0,
       "a rank cannot be bound");
}

BoundThread::~BoundThread() { ::sched_setaffinity(0, sizeof before_, &before_); }

}  // namespace composer
