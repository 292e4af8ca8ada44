#include "cli/core_binding.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/machine_limits.h"

namespace composer {
namespace {

void need(bool succeeded, const std::string& what) {
  if (!succeeded) throw UserError("--bind: " + what + ": " + std::strerror(errno));
}

struct Free {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, Free>;
using Set = std::unique_ptr<hwloc_bitmap_s, Free>;

/// The topology of the processors that this process may use, and of all GPUs.
Topology topology_of_process() {
  hwloc_topology_t made = nullptr;
  need(hwloc_topology_init(&made) == 0, "no look at the machine");
  Topology topology(made);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  need(hwloc_topology_load(made) == 0, "no look at the machine");
  const Set allowed(hwloc_bitmap_alloc());
  need(hwloc_get_cpubind(made, allowed.get(), HWLOC_CPUBIND_THREAD) == 0, "no look at the cores");
  need(hwloc_topology_restrict(made, allowed.get(), HWLOC_RESTRICT_FLAG_ADAPT_IO) == 0,
       "no look at the cores");
  return topology;
}

std::vector<int> numbers_in(hwloc_const_cpuset_t set) {
  std::vector<int> numbers;
  for (int number = -1; (number = hwloc_bitmap_next(set, number)) >= 0;) numbers.push_back(number);
  if (numbers.empty()) throw UserError("--bind: there are no processors for a rank");
  return numbers;
}

std::vector<std::vector<int>> shares_of_cores(const Topology& topology, int64_t ranks) {
  auto root = hwloc_get_root_obj(topology.get());
  std::vector<hwloc_cpuset_t> sets(static_cast<size_t>(ranks));
  need(hwloc_distrib(topology.get(), &root, 1, sets.data(), static_cast<unsigned>(ranks), INT_MAX,
                     0) == 0,
       "the cores cannot be shared");
  const std::vector<Set> owners(sets.begin(), sets.end());
  std::vector<std::vector<int>> shares;
  for (const auto& set : owners) shares.push_back(numbers_in(set.get()));
  return shares;
}

std::vector<hwloc_const_cpuset_t> memory_nodes(const Topology& topology) {
  std::vector<hwloc_const_cpuset_t> nodes;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    if (!hwloc_bitmap_iszero(node->cpuset)) nodes.push_back(node->cpuset);
  if (nodes.empty()) throw UserError("--bind: numa: this machine tells of no memory nodes");
  return nodes;
}

hwloc_const_cpuset_t beside_gpu(const Topology& topology, const std::string& address) {
  const auto device = hwloc_get_pcidev_by_busidstring(topology.get(), address.c_str());
  if (device == nullptr)
    throw UserError(
        "--bind: numa: this machine does not tell beside which memory node the GPU at " +
        (address.empty() ? "an unknown address" : address) + " is; bind to none or cores");
  return hwloc_get_non_io_ancestor_obj(topology.get(), device)->cpuset;
}

std::vector<std::vector<int>> nodes_of_ranks(const Topology& topology, size_t ranks,
                                             const std::vector<std::string>& gpus) {
  const auto nodes = memory_nodes(topology);
  std::vector<std::vector<int>> chosen;
  for (size_t i = 0; i < ranks; ++i) {
    const bool beside = !gpus.empty() && nodes.size() > 1;
    const size_t node = ranks < nodes.size() ? i : i * nodes.size() / ranks;
    chosen.push_back(
        numbers_in(beside ? beside_gpu(topology, gpus[i % gpus.size()]) : nodes[node]));
  }
  return chosen;
}

/// Binds only the calling thread. Returns whether that succeeded.
bool run_on(const std::vector<int>& processors) {
  const int most = *std::ranges::max_element(processors) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const size_t size = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(size, set.get());
  for (const int number : processors) CPU_SET_S(static_cast<size_t>(number), size, set.get());
  return ::sched_setaffinity(0, size, set.get()) == 0;
}

}  // namespace

std::vector<std::vector<int>> processors_of_ranks(Bind bind, int64_t ranks,
                                                  const std::vector<std::string>& gpus) {
  const auto topology = topology_of_process();
  return bind == Bind::cores ? shares_of_cores(topology, ranks)
                             : nodes_of_ranks(topology, static_cast<size_t>(ranks), gpus);
}

BoundThread::BoundThread(const std::vector<int>& processors) : before_(scheduled_processors()) {
  need(!before_.empty() && run_on(processors), "a rank cannot be bound");
}

BoundThread::~BoundThread() { run_on(before_); }

}  // namespace composer
