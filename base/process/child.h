// A program that runs beside this one, and its output line by line.
#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// What to start.
struct Command {
  std::filesystem::path program;       ///< seen from here; no search in PATH
  std::vector<std::string> arguments;  ///< after the program's name
  /// Variables that are added to this process's environment, or replace those of it.
  std::map<std::string, std::string> environment;
  std::filesystem::path folder;  ///< its working folder; empty: this process's
  bool takes_input = false;      ///< true: its standard input is a pipe, else it is empty
};

/// "PROGRAM: cannot be started: " and what execve failed with, for people.
std::string cannot_be_started(const std::filesystem::path& program, int error);

enum class Stream { output, errors };

/// Takes a line without its newline; what a program wrote last need not have had one. Bytes come as
/// they were written, whatever their encoding. Lines above 16 MiB come in pieces.
using TakeLine = std::function<void(Stream stream, std::string_view line)>;

/// A started program. It has a process group of its own, so that a terminal's Ctrl-C reaches it
/// only by who started it, and dies with the thread that made it, however that ends. No descriptor
/// of this class leaks into it or others.
class Child {
 public:
  /// take_line: null to let it write where this process writes. UserError naming the program when
  /// it cannot be started.
  Child(const Command& command, TakeLine take_line);
  /// Kills what still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  bool running() const { return status_ < 0; }
  /// The exit status, or 128 + the signal that ended it; -1 while it runs.
  int status() const { return status_; }

  /// To the program alone.
  void signal(int number) const;
  /// To it and to what it has started in its group.
  void signal_group(int number) const;
  /// SIGKILL to the group, and to the program wherever it is.
  void kill() const;

  /// Descriptors that are worth a poll(): of output and of errors, each -1 when there is none.
  const std::array<int, 2>& outputs() const { return outputs_; }
  /// Where to write what the program reads, without ever waiting; -1 when there is none. A SIGPIPE
  /// is the caller's.
  int input() const { return input_; }
  /// The program reads to the end of what was written.
  void close_input();

  /// Takes what the program has written by now, up to 1 MiB. Never waits.
  void read(Stream stream);
  /// Learns whether it has ended, without waiting. What is left of its group so many seconds after
  /// that is killed, and the last lines are taken; until then it counts as running. Returns
  /// running().
  bool poll(double rest_seconds = 0);
  /// Whether the program itself has ended, but not yet what it has started: no signal tells of
  /// that.
  bool only_rest_runs() const { return running() && ended_at_; }

 private:
  void begin(const Command& command, int input, const std::array<int, 2>& writers);
  void take(Stream stream, std::string_view bytes);
  void close(Stream stream);
  bool has_ended() const;

  pid_t id_ = -1;
  int status_ = -1;
  std::optional<double> ended_at_;  ///< the program itself; seconds of the steady clock
  int program_status_ = 0;          ///< once it has
  TakeLine take_line_;
  int input_ = -1;
  std::array<int, 2> outputs_{-1, -1};
  std::array<std::string, 2> unfinished_;  ///< lines
};

}  // namespace composer
