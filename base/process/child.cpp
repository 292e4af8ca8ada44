#include "base/process/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/signals.h"

namespace composer {
namespace {

constexpr size_t longest_line = 16 << 20;

/// The most reads of 64 KiB in one read(): all that a pipe holds, even if its writer never stops.
constexpr int most_reads = 16;

/// The arguments and environment of the new process, made before the fork: after it, nothing may
/// allocate.
struct Words {
  explicit Words(const Command& command)
      : program(std::filesystem::absolute(command.program).string()) {
    texts.push_back(command.program.string());
    texts.insert(texts.end(), command.arguments.begin(), command.arguments.end());
    for (auto& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    for (const auto& [name, value] : command.environment) added.push_back(name + "=" + value);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (!command.environment.contains(std::string(text.substr(0, text.find('=')))))
        environment.push_back(*entry);
    }
    for (auto& text : added) environment.push_back(text.data());
    environment.push_back(nullptr);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  std::string program;
  std::vector<std::string> texts, added;
  std::vector<char*> arguments, environment;
};

/// The message of a new process that failed to start its program.
struct StartProblem {
  enum Step { enter_folder, start } step;
  int error;
};

/// The exit status of a process; 128 + SIGKILL if another caller has waited for it already.
int wait_for(pid_t process) {
  int status = SIGKILL;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw RunError(std::string("no pipe can be made: ") + std::strerror(errno));
  return ends;
}

/// Blocks all signals while the new process has the handlers of this one.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { restore(); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Resets this program's signal handlers; ignored signals stay ignored.
void forget_handlers() {
  for (int number = 1; number < NSIG; ++number) {
    if (!is_ignored(number)) ::signal(number, SIG_DFL);
  }
}

/// Becomes the program, in the new process; returns only on failure. reader: its input; -1: empty.
/// writers: its output and errors; -1: unchanged.
StartProblem become(const Command& command, const Words& words, int reader,
                    const std::array<int, 2>& writers, pid_t parent,
                    const SignalsBlocked& blocked) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // the parent died before prctl()
  const int input = reader >= 0 ? reader : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (writers[0] >= 0) ::dup2(writers[0], STDOUT_FILENO);
  if (writers[1] >= 0) ::dup2(writers[1], STDERR_FILENO);
  if (!command.folder.empty() && ::chdir(command.folder.c_str()) != 0)
    return {StartProblem::enter_folder, errno};
  forget_handlers();
  ::signal(SIGXFSZ, SIG_DFL);  // this program ignores it
  blocked.restore();
  ::execve(words.program.c_str(), words.arguments.data(), words.environment.data());
  return {StartProblem::start, errno};
}

}  // namespace

std::string cannot_be_started(const std::filesystem::path& program, int error) {
  std::string reason = std::strerror(error);
  if (error == ENOEXEC)
    reason = "it is no program for this machine, nor a script that begins with #!";
  if (error == ENOENT && std::filesystem::exists(program))
    reason = "the interpreter or loader that it names is missing";
  return program.string() + ": cannot be started: " + reason;
}

Child::Child(const Command& command, TakeLine take_line) : take_line_(std::move(take_line)) {
  std::array<int, 2> input{-1, -1}, writers{-1, -1};
  const auto close_all = [](std::array<int, 2>& ends) {
    for (int& end : ends)
      if (end >= 0) ::close(std::exchange(end, -1));
  };
  try {
    if (take_line_) {
      for (size_t i = 0; i < 2; ++i) {
        const auto [reader, writer] = make_pipe();
        outputs_[i] = reader, writers[i] = writer;
        ::fcntl(reader, F_SETFL, O_NONBLOCK);
      }
    }
    if (command.takes_input) {
      input = make_pipe();
      ::fcntl(input[1], F_SETFL, O_NONBLOCK);
    }
    begin(command, input[0], writers);
  } catch (...) {
    close_all(input), close_all(writers), close_all(outputs_);
    throw;
  }
  input_ = std::exchange(input[1], -1);
  close_all(input), close_all(writers);
}

void Child::begin(const Command& command, int input, const std::array<int, 2>& writers) {
  const Words words(command);
  const auto [reader, writer] = make_pipe();
  const pid_t parent = ::getpid();
  {
    const SignalsBlocked blocked;
    id_ = ::fork();
    if (id_ == 0) {
      const auto problem = become(command, words, input, writers, parent, blocked);
      const ssize_t told = ::write(writer, &problem, sizeof problem);
      ::_exit(told == sizeof problem ? 127 : 126);
    }
  }
  const int fork_error = errno;
  ::close(writer);
  StartProblem problem{};
  ssize_t size = 0;
  // The read ends when the program begins, as that closes its end of the pipe.
  if (id_ > 0)
    while ((size = ::read(reader, &problem, sizeof problem)) < 0 && errno == EINTR) {
    }
  ::close(reader);
  if (id_ < 0)
    throw RunError(command.program.string() +
                   ": no process can be made for it: " + std::strerror(fork_error));
  if (size != sizeof problem) return;
  wait_for(id_);
  if (problem.step == StartProblem::start)
    throw UserError(cannot_be_started(command.program, problem.error));
  throw UserError(command.folder.string() + ": cannot be entered: " + std::strerror(problem.error));
}

Child::~Child() {
  if (running()) {
    kill();
    if (!ended_at_) wait_for(id_);
  }
  for (const int output : outputs_)
    if (output >= 0) ::close(output);
  close_input();
}

void Child::close_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

void Child::signal(int number) const {
  if (running() && !ended_at_) ::kill(id_, number);
}

void Child::signal_group(int number) const {
  if (running() && ::kill(-id_, number) != 0) signal(number);  // the program left its group
}

void Child::kill() const {
  signal_group(SIGKILL);
  signal(SIGKILL);
}

void Child::read(Stream stream) {
  std::array<char, 64 << 10> buffer;
  const int& output = outputs_[static_cast<size_t>(stream)];
  for (int i = 0; i < most_reads && output >= 0; ++i) {
    const ssize_t size = ::read(output, buffer.data(), buffer.size());
    if (size > 0)
      take(stream, {buffer.data(), static_cast<size_t>(size)});
    else if (size < 0 && errno == EAGAIN)
      return;
    else if (size == 0 || errno != EINTR)
      close(stream);
  }
}

void Child::take(Stream stream, std::string_view bytes) {
  auto& begun = unfinished_[static_cast<size_t>(stream)];
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;) {
    if (begun.empty()) {
      take_line_(stream, bytes.substr(0, end));
    } else {
      begun += bytes.substr(0, end);
      take_line_(stream, std::exchange(begun, {}));
    }
    bytes.remove_prefix(end + 1);
  }
  begun += bytes;
  if (begun.size() >= longest_line) take_line_(stream, std::exchange(begun, {}));
}

void Child::close(Stream stream) {
  ::close(std::exchange(outputs_[static_cast<size_t>(stream)], -1));
  const auto last = std::exchange(unfinished_[static_cast<size_t>(stream)], {});
  if (!last.empty()) take_line_(stream, last);
}

bool Child::has_ended() const {
  siginfo_t info{};
  // WNOWAIT keeps the process as a zombie, so that no other group gets its number.
  const int result = ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
  return result == 0 ? info.si_pid == id_ : errno == ECHILD;
}

bool Child::poll(double rest_seconds) {
  if (!running()) return false;
  if (!ended_at_) {
    if (!has_ended()) return true;
    if (rest_seconds <= 0) ::kill(-id_, SIGKILL);
    program_status_ = wait_for(id_);
    ended_at_ = steady_seconds();
  }
  if (rest_seconds > 0 && ::kill(-id_, 0) == 0) {
    if (steady_seconds() < *ended_at_ + rest_seconds) return true;
    ::kill(-id_, SIGKILL);
  }
  for (const auto stream : {Stream::output, Stream::errors}) {
    read(stream);
    if (outputs_[static_cast<size_t>(stream)] >= 0) close(stream);
  }
  status_ = program_status_;
  return false;
}

}  // namespace composer
