// What is kept of the events of one trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/name_table.h"

namespace composer {

/// What kind of thing an event is, by Kineto's "cat".
enum class EventCategory : uint8_t {
  operator_,        ///< cpu_op
  user_annotation,  ///< a named range
  runtime,          ///< cuda_runtime, cuda_driver and their kin: calls that launch or wait
  kernel,           ///< work of a device, as the next two
  memcpy,
  memset,
  synchronization,    ///< cuda_sync
  device_annotation,  ///< gpu_user_annotation: a named range, where a device worked on it
  other,
};

inline constexpr uint32_t no_detail = std::numeric_limits<uint32_t>::max();

/// One event that has a duration.
struct TraceEvent {
  int64_t start_ns = 0;  ///< from the trace's base_ns
  int64_t duration_ns = 0;
  int64_t correlation = -1;     ///< what joins a launch to what it launched; -1: none
  uint32_t name = 0;            ///< in the trace's names, as the next one
  uint32_t detail = no_detail;  ///< in names: the shapes of an operator's inputs, or a copy's GB/s
  int32_t stream = -1;          ///< of a device; -1: on the CPU
  uint16_t lane = 0;            ///< in the trace's lanes
  EventCategory category = EventCategory::other;
  bool profiler_step = false;  ///< a mark ProfilerStep#N

  int64_t end_ns() const { return start_ns + duration_ns; }
  bool on_device() const { return stream >= 0; }
  /// Neither on a device nor a copy of a range that is drawn on one.
  bool on_host() const { return !on_device() && category != EventCategory::device_annotation; }
};
static_assert(sizeof(TraceEvent) == 40);

/// Events in the order of their file. Grows without moving what it holds, so that the most memory
/// it needs is what its events take.
class EventList {
 public:
  void push_back(const TraceEvent& event) {
    if (size_ % block_size == 0) blocks_.push_back(std::make_unique<TraceEvent[]>(block_size));
    blocks_.back()[size_++ % block_size] = event;
  }

  const TraceEvent& operator[](size_t i) const { return blocks_[i / block_size][i % block_size]; }
  TraceEvent& operator[](size_t i) { return blocks_[i / block_size][i % block_size]; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t block_size = 8192;
  std::vector<std::unique_ptr<TraceEvent[]>> blocks_;
  size_t size_ = 0;
};

/// A row of a trace: a thread of the host or a stream of a device.
struct TraceLane {
  std::string process, thread;  ///< pid and tid as the trace writes them
  std::string name;             ///< the thread's, where the trace tells it
};

/// One rank's trace.
struct RankTrace {
  std::string file;
  int64_t rank = 0;
  int64_t bytes = 0;  ///< of JSON, uncompressed
  int64_t base_ns = 0;
  bool truncated = false;   ///< its file ends in the middle
  bool has_events = false;  ///< of any kind
  int64_t events_end = -1;  ///< byte of the bracket that closes the events; -1: there is none
  NameTable names;
  std::vector<TraceLane> lanes;
  EventList events;
  std::vector<std::string> warnings;

  std::string_view name_of(const TraceEvent& event) const { return names[event.name]; }
};

}  // namespace composer
