// The events of traces, reading them as PyTorch's profiler (Kineto) and Chrome write them, and
// which of them the analyses look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace composer {

/// Strings numbered in the order in which they first came, each kept once.
class NameTable {
 public:
  /// The number of `word`.
  uint32_t intern(std::string_view word);

  /// The number of the text between the quotes of a JSON string, whose escapes are decoded.
  uint32_t intern_json(std::string_view quoted);

  std::string_view operator[](uint32_t number) const { return words_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(words_.size()); }

 private:
  std::deque<std::string> words_;
  std::deque<std::string> escaped_;
  std::unordered_map<std::string_view, uint32_t> numbers_, escaped_numbers_;
};

/// The text between the quotes of a JSON string with its escapes decoded, in UTF-8. Invalid escapes
/// and halves of surrogate pairs stay as they are.
std::string unescaped(std::string_view quoted);

/// The kind of an event, by Kineto's "cat".
enum class EventCategory : uint8_t {
  operator_,          ///< cpu_op
  user_annotation,    ///< a named range
  runtime,            ///< cuda_runtime, cuda_driver and the like: calls that launch or wait
  kernel,             ///< work of a device
  memcpy,             ///< work of a device
  memset,             ///< work of a device
  synchronization,    ///< cuda_sync
  device_annotation,  ///< gpu_user_annotation: a named range, where a device worked on it
  other,
};

inline constexpr uint32_t no_detail = std::numeric_limits<uint32_t>::max();

/// One event that has a duration.
struct TraceEvent {
  int64_t start_ns = 0;  ///< from the trace's base_ns
  int64_t duration_ns = 0;
  int64_t correlation = -1;     ///< the id that a call shares with the work it launched; -1: none
  uint32_t name = 0;            ///< index into the trace's names
  uint32_t detail = no_detail;  ///< index into the names: input shapes, or a copy's GB/s
  int32_t stream = -1;          ///< the device's stream; -1 on the CPU
  uint16_t lane = 0;            ///< index into the trace's lanes
  EventCategory category = EventCategory::other;
  bool profiler_step = false;  ///< a mark ProfilerStep#N

  int64_t end_ns() const { return start_ns + duration_ns; }
  bool on_device() const { return stream >= 0; }
  /// Neither on a device nor a device's copy of a named range.
  bool on_host() const { return !on_device() && category != EventCategory::device_annotation; }
};
static_assert(sizeof(TraceEvent) == 40);

/// Events in the order of their file. Growing does not move the events, so that the peak memory is
/// the size of the events.
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
  std::string name;             ///< the thread's name, if the trace has it
};

/// One rank's trace.
struct RankTrace {
  std::string file;
  int64_t rank = 0;
  int64_t bytes = 0;  ///< size of the uncompressed JSON
  int64_t base_ns = 0;
  bool truncated = false;   ///< the file ends in the middle
  bool has_events = false;  ///< there are events of any kind
  int64_t events_end = -1;  ///< offset of the bracket that closes the events; -1: none
  NameTable names;
  std::vector<TraceLane> lanes;
  EventList events;
  std::vector<std::string> warnings;

  std::string_view name_of(const TraceEvent& event) const { return names[event.name]; }
};

/// How the times of a trace are read.
enum class TraceTimes {
  exact,                 ///< nanoseconds, as the file has them
  rounded_microseconds,  ///< rounded as by HolisticTraceAnalysis: starts up, ends down
};

/// Reads `file` (.json or .json.gz: an object with traceEvents, or an array of events), an event at
/// a time. Memory holds 40 bytes per event with a duration, each name once, and 4 MiB of text. A
/// truncated file is read as far as it goes, with a warning. `rank` stays -1 if the file has none.
/// Negative durations become 0, with a warning. UserError with the byte's offset if the file is no
/// trace.
RankTrace read_trace(const std::filesystem::path& file, TraceTimes times = TraceTimes::exact);

/// The rank in the metadata of `file` before its events, if it is there. UserError if the file is
/// no trace up to its events.
std::optional<int64_t> rank_in(const std::filesystem::path& file);

struct TraceRules {
  /// All as release 0.5.0 of HolisticTraceAnalysis calculates it, for comparisons with it: times
  /// rounded to microseconds, waits between streams taken for computation, only cudaLaunchKernel's
  /// own calls in launch statistics, and grouped kernels' statistics taken over their sums.
  bool as_hta = false;
  /// Gaps between kernels that the host did not cause are kernel_wait if shorter than this, else
  /// other. HTA's default of 30 is in microseconds.
  int64_t consecutive_kernel_delay_ns = 30'000;
  /// Number of launches that fill a stream's queue; CUDA's holds 1024.
  int64_t queue_capacity = 1024;
  int64_t slow_launch_ns = 50'000;    ///< longer launch calls count as slow
  int64_t launch_delay_ns = 100'000;  ///< starts later after their call count as late
  int64_t most_kernels = 10;          ///< kernels of a type that are listed by name
  double kernel_share = 0.8;  ///< quantile of the running sums past which names are "others"

  TraceTimes times() const { return as_hta ? TraceTimes::rounded_microseconds : TraceTimes::exact; }
};

/// A device's event and the host's call that launched it, as indices into the trace's events.
struct Launched {
  uint32_t event = 0;
  uint32_t call = none;  ///< none if the call is not in the trace

  static constexpr uint32_t none = 0xffffffff;
};

/// The events that HTA keeps (hta/common/trace.py): with two or more ProfilerStep marks, the host's
/// events that begin before the last mark and the device events that they launched; with fewer
/// marks, all events. Marks on device rows count only with as_hta.
struct Selection {
  std::vector<Launched> device;  ///< in the order of the file
  bool last_step_dropped = false;
  int64_t first_start_ns = 0, last_start_ns = 0;  ///< first and last start of the kept events
};

Selection select(const RankTrace& trace, bool as_hta);

/// Whether a call of this name puts work into a stream's queue. as_hta: only the calls that HTA's
/// launch statistics know.
bool launches_work(std::string_view call, bool as_hta);

}  // namespace composer
