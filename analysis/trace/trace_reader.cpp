#include "analysis/trace/trace_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "analysis/trace/json_cursor.h"
#include "base/error.h"

namespace composer {
namespace {

/// The UTF-16 code unit of the escape "\uXXXX" at `at`.
std::optional<uint32_t> code_unit(std::string_view text, size_t at) {
  if (text.substr(at, 2) != "\\u" || at + 6 > text.size()) return std::nullopt;
  uint32_t unit = 0;
  const auto* first = text.data() + at + 2;
  const auto [end, error] = std::from_chars(first, first + 4, unit, 16);
  if (error != std::errc() || end != first + 4) return std::nullopt;
  return unit;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

/// Appends the character of the escape at `at` and returns the escape's length; 0 if it is invalid.
size_t append_escape(std::string& text, std::string_view quoted, size_t at) {
  constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (at + 1 >= quoted.size()) return 0;
  if (const size_t letter = letters.find(quoted[at + 1]); letter != std::string_view::npos) {
    text += meanings[letter];
    return 2;
  }
  const auto high = code_unit(quoted, at);
  if (!high) return 0;
  if (*high < 0xd800 || *high > 0xdfff) {
    append_utf8(text, *high);
    return 6;
  }
  const auto low = code_unit(quoted, at + 6);
  if (*high > 0xdbff || !low || *low < 0xdc00 || *low > 0xdfff) return 0;
  append_utf8(text, 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00));
  return 12;
}

// The categories of Kineto, of its first releases, and of the accelerators that HTA knows.
constexpr std::pair<std::string_view, EventCategory> category_names[] = {
    {"cpu_op", EventCategory::operator_},
    {"Operator", EventCategory::operator_},
    {"user_annotation", EventCategory::user_annotation},
    {"gpu_user_annotation", EventCategory::device_annotation},
    {"cuda_runtime", EventCategory::runtime},
    {"cuda_driver", EventCategory::runtime},
    {"mtia_runtime", EventCategory::runtime},
    {"Runtime", EventCategory::runtime},
    {"kernel", EventCategory::kernel},
    {"Kernel", EventCategory::kernel},
    {"mtia_ccp_events", EventCategory::kernel},
    {"gpu_memcpy", EventCategory::memcpy},
    {"Memcpy", EventCategory::memcpy},
    {"gpu_memset", EventCategory::memset},
    {"Memset", EventCategory::memset},
    {"cuda_sync", EventCategory::synchronization},
};

EventCategory category_of(std::string_view name) {
  for (const auto& [known, category] : category_names)
    if (known == name) return category;
  return EventCategory::other;
}

/// The text of an event's members; missing members and null times are empty.
struct RawEvent {
  std::string_view phase, category, name, process, thread, start, duration;
  std::string_view stream, correlation, shapes, bandwidth, thread_name;
};

std::string_view without_null(std::string_view value) {
  return value == "null" ? std::string_view() : value;
}

std::string_view without_quotes(std::string_view value) {
  return value.size() >= 2 && value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
}

void read_arguments(JsonCursor& cursor, RawEvent& event) {
  if (cursor.peek() != '{') {
    cursor.value();
    return;
  }
  cursor.members([&](std::string_view name) {
    const auto value = cursor.value();
    if (name == "stream")
      event.stream = value;
    else if (name == "correlation")
      event.correlation = value;
    else if (name == "Input Dims")
      event.shapes = value;
    else if (name == "memory bandwidth (GB/s)")
      event.bandwidth = value;
    else if (name == "name")
      event.thread_name = without_quotes(value);
  });
}

RawEvent read_event(JsonCursor& cursor) {
  RawEvent event;
  cursor.members([&](std::string_view name) {
    if (name == "args")
      read_arguments(cursor, event);
    else if (name == "name")
      event.name = without_quotes(cursor.value());
    else if (name == "ph")
      event.phase = without_quotes(cursor.value());
    else if (name == "cat")
      event.category = without_quotes(cursor.value());
    else if (name == "pid")
      event.process = without_quotes(cursor.value());
    else if (name == "tid")
      event.thread = without_quotes(cursor.value());
    else if (name == "ts")
      event.start = without_null(cursor.value());
    else if (name == "dur")
      event.duration = without_null(cursor.value());
    else
      cursor.value();
  });
  return event;
}

/// Rounds as HTA rounds float64 microseconds: the start up and the end down to whole microseconds.
void round_to_microseconds(TraceEvent& event) {
  const auto microseconds = [](int64_t ns) {
    return static_cast<double>(static_cast<long double>(ns) / 1000);
  };
  const double start = microseconds(event.start_ns);
  const double end = start + microseconds(event.duration_ns);
  event.start_ns = 1000 * static_cast<int64_t>(std::ceil(start));
  event.duration_ns = 1000 * static_cast<int64_t>(std::floor(end)) - event.start_ns;
}

// Limits that keep differences of two times from overflowing.
constexpr int64_t kLatest = int64_t{1} << 62, kEarliest = -(int64_t{1} << 61);
constexpr int64_t kLongest = int64_t{1} << 50;

int64_t time_within(std::string_view text, int64_t least, int64_t most, const char* expected) {
  const int64_t ns = nanoseconds_of(text);
  if (ns < least || ns > most) throw BadJson{text.data(), expected};
  return ns;
}

/// CUPTI writes 4294967295 for "all streams", which HTA treats as a stream of its own.
int32_t stream_of(std::string_view text) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp<int64_t>(integer_of(text, -1), -1, most));
}

class TraceReader {
 public:
  TraceReader(const std::filesystem::path& file, TraceTimes times, bool only_head)
      : source_(file), cursor_(nullptr, nullptr), times_(times), only_head_(only_head) {
    trace_.file = file.string();
    trace_.rank = -1;
  }

  RankTrace read() {
    try {
      read_all();
    } catch (const BadJson& bad) {
      throw UserError(trace_.file + ": at byte " + std::to_string(byte(bad.at)) +
                      ": no trace: expected " + bad.expected);
    } catch (const EndOfText&) {
      if (!in_events_)
        throw UserError(trace_.file + ": ends at byte " + std::to_string(byte(source_.end())) +
                        " without traceEvents; a trace has an object with them, or an array");
      trace_.truncated = true;
      trace_.warnings.push_back("ends in the middle, at byte " +
                                std::to_string(byte(source_.end())) +
                                "; read up to there: a run that was killed while it wrote?");
    }
    trace_.bytes = byte(source_.end());
    if (begun_ + ended_ > 0)
      trace_.warnings.push_back(std::to_string(begun_ + ended_) +
                                " events are pairs of B and E, which are not looked at: Kineto "
                                "writes X");
    if (negative_ > 0)
      trace_.warnings.push_back("negative durations are taken for 0; events that have one: " +
                                std::to_string(negative_));
    return std::move(trace_);
  }

 private:
  int64_t byte(const char* at) const { return source_.offset() + (at - source_.begin()); }

  /// Calls `parse` with more and more text in memory until it succeeds, and returns its result.
  /// EndOfText if the file has no more text.
  template <class Parse>
  auto with_text(const Parse& parse) {
    for (;;) {
      const char* const from = cursor_.at();
      try {
        return parse();
      } catch (const EndOfText&) {
        const bool more = source_.refill(from == nullptr ? source_.begin() : from);
        cursor_ = JsonCursor(source_.begin(), source_.end());
        if (!more) throw;
      }
    }
  }

  void read_all() {
    const char first = with_text([&] { return cursor_.peek(); });
    if (first == '[') return read_events();
    with_text([&] { cursor_.expect('{', "an object or an array"); });
    if (with_text([&] { return cursor_.take('}'); })) throw EndOfText();
    do {
      if (read_member() && only_head_) return;
    } while (with_text([&] { return cursor_.take(','); }));
    with_text([&] { cursor_.expect('}', "',' or '}'"); });
    if (!in_events_) throw EndOfText();
  }

  /// Reads one member of the top object; returns whether it was traceEvents.
  bool read_member() {
    bool events = false;
    with_text([&] {
      const auto name = cursor_.string();
      cursor_.expect(':', "':'");
      events = name == "traceEvents";
      if (events)
        cursor_.peek();
      else
        take_metadata(name, cursor_);
    });
    if (events) read_events();
    return events;
  }

  void take_metadata(std::string_view name, JsonCursor& cursor) {
    if (name == "distributedInfo" && cursor.peek() == '{') {
      cursor.members([&](std::string_view key) {
        const auto value = cursor.value();
        if (key == "rank") trace_.rank = integer_of(value, -1);
      });
      return;
    }
    const auto value = cursor.value();
    if (name == "baseTimeNanoseconds") trace_.base_ns = integer_of(value, 0);
  }

  void read_events() {
    with_text([&] { cursor_.expect('[', "an array of events"); });
    in_events_ = true;
    if (with_text([&] { return cursor_.take(']'); })) return end_events();
    if (with_text([&] { return cursor_.peek(); }) != '{') throw BadJson{cursor_.at(), "an event"};
    if (only_head_) return;
    trace_.has_events = true;
    do {
      keep(with_text([&] {
        const auto event = read_event(cursor_);
        const char next = cursor_.peek();
        if (next != ',' && next != ']') throw BadJson{cursor_.at(), "',' or ']'"};
        return event;
      }));
    } while (with_text([&] { return cursor_.take(','); }));
    with_text([&] { cursor_.expect(']', "']'"); });
    end_events();
  }

  void end_events() { trace_.events_end = byte(cursor_.at()) - 1; }

  void keep(const RawEvent& raw) {
    if (raw.phase == "M") return keep_lane_name(raw);
    if (raw.phase == "B") ++begun_;
    if (raw.phase == "E") ++ended_;
    if (raw.duration.empty() || raw.category.empty() || raw.category == "Trace" ||
        raw.start.empty())
      return;
    TraceEvent event;
    event.start_ns = time_within(raw.start, kEarliest, kLatest, "a time up to the year 2116");
    event.duration_ns = time_within(raw.duration, -kLongest, kLongest, "less than 13 days");
    if (event.duration_ns < 0) event.duration_ns = 0, ++negative_;
    if (times_ == TraceTimes::rounded_microseconds) round_to_microseconds(event);
    event.name = trace_.names.intern_json(raw.name);
    event.category = category_of(raw.category);
    event.profiler_step = raw.name.starts_with("ProfilerStep");
    event.lane = lane_of(raw.process, raw.thread);
    if (!raw.correlation.empty()) event.correlation = integer_of(raw.correlation, -1);
    if (!raw.stream.empty()) event.stream = stream_of(raw.stream);
    event.detail = detail_of(raw);
    trace_.events.push_back(event);
  }

  uint32_t detail_of(const RawEvent& raw) {
    const auto text = raw.shapes.empty() ? raw.bandwidth : raw.shapes;
    return text.empty() ? no_detail : trace_.names.intern(text);
  }

  uint16_t lane_of(std::string_view process, std::string_view thread) {
    if (last_lane_ < trace_.lanes.size() && trace_.lanes[last_lane_].thread == thread &&
        trace_.lanes[last_lane_].process == process)
      return last_lane_;
    lane_key_.assign(process).append(1, '\0').append(thread);
    const auto [place, is_new] =
        lane_numbers_.try_emplace(lane_key_, static_cast<uint16_t>(trace_.lanes.size()));
    last_lane_ = place->second;
    if (!is_new) return last_lane_;
    if (trace_.lanes.size() == std::numeric_limits<uint16_t>::max())
      throw UserError(trace_.file + ": has events of more than 65,535 threads");
    trace_.lanes.push_back({std::string(process), std::string(thread), {}});
    return last_lane_;
  }

  void keep_lane_name(const RawEvent& raw) {
    if (raw.name == "thread_name" && !raw.thread_name.empty())
      trace_.lanes[lane_of(raw.process, raw.thread)].name = unescaped(raw.thread_name);
  }

  TextSource source_;
  JsonCursor cursor_;
  TraceTimes times_;
  bool only_head_;
  bool in_events_ = false;
  int64_t begun_ = 0, ended_ = 0, negative_ = 0;
  uint16_t last_lane_ = 0;
  std::string lane_key_;  ///< a key of lane_numbers_: process, NUL, thread; kept for its memory
  std::unordered_map<std::string, uint16_t> lane_numbers_;
  RankTrace trace_;
};

constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

/// The start of the last step; kAlways with fewer than two marks.
int64_t start_of_last_step(const RankTrace& trace, bool as_hta) {
  std::set<uint32_t> marks;
  int64_t last = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (!event.profiler_step || (!as_hta && !event.on_host())) continue;
    marks.insert(event.name);
    last = std::max(last, event.start_ns);
  }
  return marks.size() < 2 ? kAlways : last;
}

using Calls = std::unordered_map<int64_t, uint32_t>;

/// The host's calls by correlation: the last call that launches work, or else the last call.
Calls calls_before(const RankTrace& trace, int64_t cutoff) {
  Calls calls;
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (event.correlation < 0 || event.on_device() || event.start_ns >= cutoff ||
        event.category == EventCategory::synchronization)
      continue;
    const auto [place, is_new] = calls.try_emplace(event.correlation, i);
    if (!is_new && (launches_work(trace.name_of(event), false) ||
                    !launches_work(trace.name_of(trace.events[place->second]), false)))
      place->second = i;
  }
  return calls;
}

}  // namespace

std::string unescaped(std::string_view quoted) {
  std::string text;
  for (size_t at = 0; at < quoted.size();) {
    const size_t length = quoted[at] == '\\' ? append_escape(text, quoted, at) : 0;
    if (length == 0) text += quoted[at];
    at += length == 0 ? 1 : length;
  }
  return text;
}

uint32_t NameTable::intern(std::string_view word) {
  if (const auto found = numbers_.find(word); found != numbers_.end()) return found->second;
  const auto& kept = words_.emplace_back(word);
  return numbers_.emplace(kept, size() - 1).first->second;
}

uint32_t NameTable::intern_json(std::string_view quoted) {
  if (quoted.find('\\') == std::string_view::npos) return intern(quoted);
  if (const auto found = escaped_numbers_.find(quoted); found != escaped_numbers_.end())
    return found->second;
  const uint32_t number = intern(unescaped(quoted));
  escaped_numbers_.emplace(escaped_.emplace_back(quoted), number);
  return number;
}

RankTrace read_trace(const std::filesystem::path& file, TraceTimes times) {
  return TraceReader(file, times, false).read();
}

std::optional<int64_t> rank_in(const std::filesystem::path& file) {
  const auto rank = TraceReader(file, TraceTimes::exact, true).read().rank;
  return rank < 0 ? std::nullopt : std::optional(rank);
}

bool launches_work(std::string_view call, bool as_hta) {
  constexpr std::string_view known[] = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                        "cudaMemcpyAsync", "cudaMemsetAsync",
                                        "runFunction - job_prep_and_submit_for_execution"};
  constexpr std::string_view others[] = {
      "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel",    "hipExtModuleLaunchKernel",
      "hipMemcpyAsync", "hipMemsetAsync",   "hipMemcpyWithStream"};
  return std::ranges::find(known, call) != std::end(known) ||
         (!as_hta && std::ranges::find(others, call) != std::end(others));
}

Selection select(const RankTrace& trace, bool as_hta) {
  Selection selection;
  const int64_t cutoff = start_of_last_step(trace, as_hta);
  selection.last_step_dropped = cutoff != kAlways;
  const auto calls = calls_before(trace, cutoff);
  int64_t first = kAlways, last = std::numeric_limits<int64_t>::min();
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    bool kept = event.start_ns < cutoff;
    if (event.on_device()) {
      const auto call = calls.find(event.correlation);
      const bool linked = event.correlation >= 0 && call != calls.end();
      if (event.correlation >= 0) kept = linked || !selection.last_step_dropped;
      if (kept) selection.device.push_back({i, linked ? call->second : Launched::none});
    }
    if (!kept) continue;
    first = std::min(first, event.start_ns);
    last = std::max(last, event.start_ns);
  }
  if (first <= last) selection.first_start_ns = first, selection.last_start_ns = last;
  return selection;
}

}  // namespace composer
