// A child process, and its output line by line.
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

/// A program to start.
struct Command {
  std::filesystem::path program;       ///< relative to this process's folder; not searched in PATH
  std::vector<std::string> arguments;  ///< after the program's name
  /// Variables that are added to this process's environment, or replace those of it.
  std::map<std::string, std::string> environment;
  std::filesystem::path folder;  ///< its working folder; empty: this process's
  bool takes_input = false;      ///< true: its standard input is a pipe, else it is empty
};

/// "PROGRAM: cannot be started: REASON", for an errno of execve.
std::string cannot_be_started(const std::filesystem::path& program, int error);

enum class Stream { output, errors };

/// Takes a line without its newline; the last line of a program may have had none. The bytes are as
/// the program wrote them. Lines above 16 MiB come in pieces.
using TakeLine = std::function<void(Stream stream, std::string_view line)>;

/// A started program. It has its own process group, so that a terminal's Ctrl-C reaches it only
/// through this process, and it is killed when the thread that started it ends. No descriptor of
/// this class leaks into child processes.
class Child {
 public:
  /// take_line: null lets the program write to this process's output. UserError names the program
  /// when it cannot be started.
  Child(const Command& command, TakeLine take_line);
  /// Kills the program if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  bool running() const { return status_ < 0; }
  /// The exit status, or 128 + the signal that ended it; -1 while it runs.
  int status() const { return status_; }

  /// Sends a signal to the program alone.
  void signal(int number) const;
  /// Sends a signal to the program's process group.
  void signal_group(int number) const;
  /// Sends SIGKILL to the group, and to the program, which may have left the group.
  void kill() const;

  /// The descriptors of output and of errors to poll(); each -1 when there is none.
  const std::array<int, 2>& outputs() const { return outputs_; }
  /// The descriptor of the program's input, which never blocks; -1 when there is none. Writing to
  /// it may raise SIGPIPE.
  int input() const { return input_; }
  /// Ends the program's input.
  void close_input();

  /// Reads the program's present output, up to 1 MiB. Never waits.
  void read(Stream stream);
  /// Checks without waiting whether the program has ended. The processes that are left of its group
  /// `rest_seconds` after its end are killed, and the last lines are taken; until then it counts as
  /// running. Returns running().
  bool poll(double rest_seconds = 0);
  /// Whether the program itself has ended, but not yet its group. No signal tells when that ends.
  bool only_rest_runs() const { return running() && ended_at_; }

 private:
  void begin(const Command& command, int input, const std::array<int, 2>& writers);
  void take(Stream stream, std::string_view bytes);
  void close(Stream stream);
  bool has_ended() const;

  pid_t id_ = -1;
  int status_ = -1;
  std::optional<double> ended_at_;  ///< the end of the program itself; steady_seconds()
  int program_status_ = 0;          ///< valid once ended_at_ is set
  TakeLine take_line_;
  int input_ = -1;
  std::array<int, 2> outputs_{-1, -1};
  std::array<std::string, 2> unfinished_;  ///< the begun line of each stream
};

}  // namespace composer
