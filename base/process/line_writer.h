// Lines for a terminal, pipe or file, written without waiting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace composer {

/// Keeps lines until the descriptor takes them, so that a reader who has stopped reading blocks
/// nobody. Lines that fit into PIPE_BUF stay in one piece when several processes write. When a
/// write fails, all kept lines are dropped and counted. Writing may raise SIGPIPE.
class LineWriter {
 public:
  /// The descriptor may be blocking or not. The caller closes it.
  explicit LineWriter(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }

  /// Adds prefix, line and a newline.
  void add(std::string_view prefix, std::string_view line);
  /// Writes as much as possible without waiting.
  void write();
  /// Whether kept lines wait for descriptor() to be writable.
  bool waits() const { return !waiting_.empty(); }
  /// Whether more than 1 MiB is kept. Callers should add no more lines then.
  bool full() const;
  /// Drops all kept lines.
  void give_up();
  /// The number of lines dropped, whole or in part.
  int64_t dropped() const { return dropped_; }

 private:
  bool writable() const;

  int descriptor_;
  int64_t dropped_ = 0;
  std::string waiting_;
};

}  // namespace composer
