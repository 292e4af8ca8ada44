// Traces with known contents.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <string>

#include "tests/temporary_folder.h"

namespace composer {

class TraceFolder : public TemporaryFolder {
 public:
  std::filesystem::path write_gzip(const std::string& name, const std::string& text) const {
    const auto file = path() / name;
    const gzFile out = gzopen(file.c_str(), "wb");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
    return file;
  }
};

/// For the arguments of a copy.
inline std::string bandwidth(const std::string& gb_per_second) {
  return ", \"memory bandwidth (GB/s)\": " + gb_per_second;
}

/// The text of a trace. Times are microseconds, as the text has them.
class TraceText {
 public:
  /// One event on a thread of the host.
  TraceText& host(const std::string& category, const std::string& name, const std::string& start,
                  const std::string& duration, const std::string& arguments = "", int thread = 1) {
    return add(R"("ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
               R"(", "pid": 100, "tid": )" + std::to_string(thread) + R"(, "ts": )" + start +
               R"(, "dur": )" + duration + R"(, "args": {)" + arguments + "}");
  }

  TraceText& range(const std::string& name, const std::string& start, const std::string& duration) {
    return host("user_annotation", name, start, duration);
  }

  TraceText& step(int number, const std::string& start, const std::string& duration) {
    return range("ProfilerStep#" + std::to_string(number), start, duration);
  }

  TraceText& operation(const std::string& name, const std::string& start,
                       const std::string& duration, const std::string& shapes = "",
                       int thread = 1) {
    return host("cpu_op", name, start, duration, shapes.empty() ? "" : "\"Input Dims\": " + shapes,
                thread);
  }

  /// A launch at `launched`, for 1 us, of work on a stream.
  TraceText& work(const std::string& name, const std::string& launched, const std::string& start,
                  const std::string& duration, int stream = 7, const std::string& more = "") {
    const auto correlation = R"("correlation": )" + std::to_string(++correlation_);
    const bool copies = name.starts_with("Memcpy");
    host("cuda_runtime", copies ? "cudaMemcpyAsync" : "cudaLaunchKernel", launched, "1",
         correlation);
    return add(R"("ph": "X", "cat": ")" + std::string(copies ? "gpu_memcpy" : "kernel") +
               R"(", "name": ")" + name + R"(", "pid": 0, "tid": )" + std::to_string(stream) +
               R"(, "ts": )" + start + R"(, "dur": )" + duration + R"(, "args": {"stream": )" +
               std::to_string(stream) + ", " + correlation + more + "}");
  }

  TraceText& add(const std::string& members) {
    events_ += (events_.empty() ? "{" : ",\n  {") + members + "}";
    return *this;
  }

  std::string array() const { return "[" + events_ + "]"; }

  std::string of_rank(int rank) const {
    return R"({"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": )" +
           std::to_string(rank) +
           R"(, "world_size": 2}, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": )" +
           array() + R"(, "traceName": "a trace"})";
  }

 private:
  std::string events_;
  int correlation_ = 0;
};

}  // namespace composer
