#include "composer/callbacks/memory_monitor.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include <fstream>

#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {
namespace {

/// Bytes; 0 where the system does not tell.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) : 0;
}

void log_memory(const State& state, Logger& logger) {
  logger.log("memory/rss", resident_bytes());
  logger.log("memory/peak_rss", static_cast<double>(peak_memory_bytes(at::kCPU)));
  if (state.device.is_cpu()) return;
  const auto stats =
      at::getDeviceAllocator(state.device.type())->getDeviceStats(state.device.index());
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  logger.log("memory/allocated_mem", static_cast<double>(stats.allocated_bytes[all].current));
  logger.log("memory/peak_allocated_mem", static_cast<double>(stats.allocated_bytes[all].peak));
  logger.log("memory/reserved_mem", static_cast<double>(stats.reserved_bytes[all].current));
}

}  // namespace

void MemoryMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(params_.interval, state.time, false)) log_memory(state, logger);
}

void MemoryMonitor::epoch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(params_.interval, state.time, true)) log_memory(state, logger);
}

}  // namespace composer
