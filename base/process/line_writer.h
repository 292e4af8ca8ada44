// Lines for a terminal, pipe or file that takes them when it can.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace composer {

/// Keeps lines until the descriptor takes them, so that nobody waits for a reader who has stopped
/// reading. Lines that fit into PIPE_BUF come in one piece, between those of others who write there
/// too. Where writing fails, what was to be written is dropped, and counted.
/// A SIGPIPE is the caller's.
class LineWriter {
 public:
  /// The descriptor may block or not, and stays the caller's.
  explicit LineWriter(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }

  /// Prefix, line and a newline.
  void add(std::string_view prefix, std::string_view line);
  /// Writes what can be written without waiting.
  void write();
  /// Whether something is still to be written, when descriptor() is writable.
  bool waits() const { return !waiting_.empty(); }
  /// Whether more than 1 MiB is: lines had better come later.
  bool full() const;
  /// Drops what is still to be written.
  void give_up();
  /// Lines that were, or the ends of them.
  int64_t dropped() const { return dropped_; }

 private:
  bool writable() const;

  int descriptor_;
  int64_t dropped_ = 0;
  std::string waiting_;
};

}  // namespace composer
