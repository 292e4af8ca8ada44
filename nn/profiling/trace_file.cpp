#include "nn/profiling/trace_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files/gzip_file.h"
#include "base/files/mapped_file.h"

namespace composer {
namespace {

/// Offset of the numbers of additional rows: larger than any thread id.
constexpr int64_t rows_apart = 10'000'000;

/// The offset after the JSON object that begins at `begin`; npos where the object does not end.
size_t end_of_object(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < text.size(); ++at) switch (text[at]) {
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
        break;
      case '{':
        ++depth;
        break;
      case '}':
        if (--depth == 0) return at + 1;
        break;
      default:
        break;
    }
  return std::string_view::npos;
}

/// The text after `key`, which is given as "\"ts\":".
std::string_view after(std::string_view event, std::string_view key) {
  size_t at = event.find(key);
  if (at == std::string_view::npos) return {};
  at = event.find_first_not_of(' ', at + key.size());
  return at == std::string_view::npos ? std::string_view() : event.substr(at);
}

/// The string literal that `text` begins with, without quotes, with its escapes.
std::string_view quoted_text(std::string_view text) {
  if (!text.starts_with('"')) return {};
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return text.substr(1, std::min(end, text.size()) - 1);
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

/// Converts microseconds with up to three decimals.
int64_t nanoseconds(std::string_view text) {
  int64_t number = 0;
  const char* const last = text.data() + text.size();
  const char* end = std::from_chars(text.data(), last, number).ptr;
  const bool decimals = end < last && *end == '.';
  if (decimals) ++end;
  for (int i = 0; i < 3; ++i)
    number =
        number * 10 + (decimals && end < last && *end >= '0' && *end <= '9' ? *end++ - '0' : 0);
  return number;
}

/// A range of a thread.
struct Slice {
  int64_t thread, begin, end;  ///< nanoseconds
  size_t event;                ///< index in the file
  std::string_view name;
};

/// Iterates over the events of a trace's text.
class TraceText {
 public:
  explicit TraceText(std::string_view text) : text_(text) {
    const size_t key = text.find("\"traceEvents\"");
    const size_t list = key == std::string_view::npos ? key : text.find('[', key);
    if (list == std::string_view::npos) throw RunError("the trace has no traceEvents");
    begin_ = list + 1;
  }

  std::string_view head() const { return text_.substr(0, begin_); }

  /// Calls use(event) for each event; returns the text after the last one.
  template <class Use>
  std::string_view each(const Use& use) const {
    size_t at = begin_;
    while ((at = text_.find_first_of("{]", at)) != std::string_view::npos && text_[at] == '{') {
      const size_t end = end_of_object(text_, at);
      if (end == std::string_view::npos) break;
      use(text_.substr(at, end - at));
      at = end;
    }
    if (at == std::string_view::npos || text_[at] != ']') throw RunError("the trace is cut off");
    return text_.substr(at);
  }

  int64_t base_nanoseconds() const {
    return whole_number(after(head(), "\"baseTimeNanoseconds\":")).value_or(0);
  }

 private:
  std::string_view text_;
  size_t begin_ = 0;
};

/// Communication may go on after the thread has left the surrounding range.
bool is_communication(const Slice& slice) {
  return slice.name.starts_with("gloo:") || slice.name.starts_with("nccl:");
}

/// The ranges of this process's threads.
std::vector<Slice> slices_of(const TraceText& trace) {
  std::vector<Slice> slices;
  size_t number = 0;
  trace.each([&](std::string_view event) {
    const size_t index = number++;
    if (!after(event, "\"ph\":").starts_with("\"X\"")) return;
    const auto process = whole_number(after(event, "\"pid\":"));
    const auto thread = whole_number(after(event, "\"tid\":"));
    if (process != ::getpid() || !thread) return;
    const int64_t begin = nanoseconds(after(event, "\"ts\":"));
    slices.push_back({*thread, begin, begin + nanoseconds(after(event, "\"dur\":")), index,
                      quoted_text(after(event, "\"name\":"))});
  });
  return slices;
}

std::string thread_name_event(int64_t thread, std::string_view name) {
  return R"({"name": "thread_name", "ph": "M", "ts": 0, "pid": )" + std::to_string(::getpid()) +
         R"(, "tid": )" + std::to_string(thread) + R"(, "args": {"name": ")" + std::string(name) +
         R"("}})";
}

struct Moved {
  size_t event;
  int64_t row;
};

/// Assigns additional rows to slices that would overlap in their thread's row; communication has
/// rows of its own.
class Rows {
 public:
  void take(const Slice& slice) {
    auto& rows = rows_[slice.thread];
    const bool communication = is_communication(slice);
    auto free = std::ranges::find_if(rows, [&](const Row& row) {
      return row.communication == communication && row.end <= slice.begin;
    });
    if (free == rows.end()) free = rows.insert(free, {communication, 0});
    free->end = slice.end;
    const int64_t row = slice.thread + (free - rows.begin() + 1) * rows_apart;
    moved_.push_back({slice.event, row});
    begins_.try_emplace({slice.thread, slice.begin}, row);
  }

  /// The row of a flow event that is bound to a moved slice: viewers bind it by thread and begin
  /// time.
  std::optional<int64_t> row_of_flow(std::string_view event) const {
    const auto phase = quoted_text(after(event, "\"ph\":"));
    if (begins_.empty() || (phase != "s" && phase != "t" && phase != "f")) return std::nullopt;
    const auto thread = whole_number(after(event, "\"tid\":"));
    if (whole_number(after(event, "\"pid\":")) != ::getpid() || !thread) return std::nullopt;
    const auto found = begins_.find({*thread, nanoseconds(after(event, "\"ts\":"))});
    return found == begins_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The moved slices, ordered by event.
  std::vector<Moved> moved() const {
    auto all = moved_;
    std::ranges::sort(all, {}, &Moved::event);
    return all;
  }

  /// Events that name the additional rows.
  std::vector<std::string> names() const {
    std::vector<std::string> events;
    for (const auto& [thread, rows] : rows_)
      for (size_t i = 0; i < rows.size(); ++i)
        events.push_back(thread_name_event(
            thread + static_cast<int64_t>(i + 1) * rows_apart,
            (rows[i].communication ? "communication of thread " : "beside thread ") +
                std::to_string(thread)));
    return events;
  }

 private:
  struct Row {
    bool communication;
    int64_t end;  ///< end of the last slice
  };

  std::map<int64_t, std::vector<Row>> rows_;               ///< rows of each thread
  std::map<std::pair<int64_t, int64_t>, int64_t> begins_;  ///< row by thread and begin
  std::vector<Moved> moved_;
};

Rows rows_for(std::vector<Slice> slices) {
  std::ranges::sort(slices, [](const Slice& a, const Slice& b) {
    return std::tuple(a.thread, a.begin, -a.end) < std::tuple(b.thread, b.begin, -b.end);
  });
  Rows rows;
  std::vector<int64_t> open;  // ends of the open slices, each within the one before
  int64_t thread = 0;
  for (const auto& slice : slices) {
    if (slice.thread != thread) open.clear(), thread = slice.thread;
    while (!open.empty() && open.back() <= slice.begin) open.pop_back();
    if (is_communication(slice) || (!open.empty() && open.back() < slice.end))
      rows.take(slice);
    else
      open.push_back(slice.end);
  }
  return rows;
}

std::string in_row(std::string_view event, int64_t row) {
  const auto tid = after(event, "\"tid\":");
  const auto position = static_cast<size_t>(tid.data() - event.data());
  const size_t end = event.find_first_not_of("0123456789", position);
  return std::string(event.substr(0, position)) + std::to_string(row) +
         std::string(event.substr(end));
}

std::string counter_event(const MemoryPoint& point, int64_t base) {
  const int64_t time = point.nanoseconds - base;
  char ts[48];
  std::snprintf(ts, sizeof ts, "%lld.%03lld", static_cast<long long>(time / 1000),
                static_cast<long long>(time % 1000));
  std::string event =
      "{\"ph\": \"C\", \"name\": \"memory\", \"pid\": " + std::to_string(::getpid()) +
      ", \"tid\": 0, \"ts\": " + ts + ", \"args\": {";
  for (size_t i = 0; i < point.bytes.size(); ++i)
    event += (i > 0 ? ", \"" : "\"") + std::string(memory_use_names[i]) +
             "\": " + std::to_string(point.bytes[i]);
  return event + "}}";
}

/// Where Kineto names a thread twice, once after its process, the other name is the right one.
class ThreadNames {
 public:
  explicit ThreadNames(const TraceText& trace) {
    std::string process;
    trace.each([&](std::string_view event) {
      const auto kind = after(event, "\"name\":");
      if (kind.starts_with("\"process_name\"") && process.empty())
        process = "(" + std::string(last_text(event)) + ")";
      if (!kind.starts_with("\"thread_name\"")) return;
      const auto [known, added] = chosen_.emplace(thread_of(event), event);
      if (!added && known->second.find(process) != std::string_view::npos) known->second = event;
    });
  }

  /// Whether a thread of this process has a name.
  bool has(int64_t thread) const {
    return chosen_.contains({std::to_string(::getpid()), std::to_string(thread)});
  }

  /// Whether the event is a thread's second name, which is left out.
  bool drops(std::string_view event) const {
    if (!after(event, "\"name\":").starts_with("\"thread_name\"")) return false;
    return chosen_.at(thread_of(event)).data() != event.data();
  }

 private:
  using Thread = std::pair<std::string, std::string>;  // process and thread, as written in the file

  static Thread thread_of(std::string_view event) {
    const auto word = [&](std::string_view key) {
      const auto text = after(event, key);
      return std::string(text.substr(0, text.find_first_of(",}")));
    };
    return {word("\"pid\":"), word("\"tid\":")};
  }

  /// The last text in quotes.
  static std::string_view last_text(std::string_view event) {
    const size_t end = event.rfind('"');
    if (end == std::string_view::npos || end == 0) return {};
    const size_t begin = event.rfind('"', end - 1) + 1;
    return event.substr(begin, end - begin);
  }

  std::map<Thread, std::string_view> chosen_;
};

/// Events that name threads after their first slice: Kineto does not name a thread that reuses the
/// handle of an ended one.
std::vector<std::string> names_by_first(const std::vector<Slice>& slices,
                                        const ThreadNames& names) {
  std::map<int64_t, const Slice*> first;
  for (const auto& slice : slices) {
    auto& known = first[slice.thread];
    if (known == nullptr ||
        std::tuple(slice.begin, -slice.end) < std::tuple(known->begin, -known->end))
      known = &slice;
  }
  std::vector<std::string> events;
  for (const auto& [thread, slice] : first)
    if (!names.has(thread))
      events.push_back(thread_name_event(
          thread, "thread " + std::to_string(thread) + " (" + std::string(slice->name) + ")"));
  return events;
}

void rewrite(const TraceText& trace, const std::vector<MemoryPoint>& memory, GzipFile& file) {
  auto slices = slices_of(trace);
  const ThreadNames names(trace);
  const auto more_names = names_by_first(slices, names);
  const auto rows = rows_for(std::move(slices));
  const auto moved = rows.moved();
  file.write(trace.head());
  bool first = true;
  const auto write_event = [&](std::string_view event) {
    file.write(std::exchange(first, false) ? "\n" : ",\n");
    file.write(event);
  };
  size_t number = 0, next = 0;
  const auto tail = trace.each([&](std::string_view event) {
    const size_t index = number++;
    if (next < moved.size() && moved[next].event == index)
      write_event(in_row(event, moved[next++].row));
    else if (const auto row = rows.row_of_flow(event))
      write_event(in_row(event, *row));
    else if (!names.drops(event))
      write_event(event);
  });
  for (const auto& name : more_names) write_event(name);
  for (const auto& name : rows.names()) write_event(name);
  for (const auto& point : memory) write_event(counter_event(point, trace.base_nanoseconds()));
  file.write("\n");
  file.write(tail);
}

}  // namespace

void compress_trace(const std::filesystem::path& json, const std::filesystem::path& compressed,
                    const std::vector<MemoryPoint>& memory) {
  MappedFile(json).use_all([&](std::span<const uint8_t> bytes) {
    const TraceText trace({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    GzipFile file(compressed);
    rewrite(trace, memory, file);
    file.commit();
    return true;
  });
}

}  // namespace composer
