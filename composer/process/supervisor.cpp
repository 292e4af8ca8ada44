#include "composer/process/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "composer/clock.h"

namespace composer {
namespace {

constexpr double same_request_seconds = 0.5;

/// A signal that asks for the end.
bool asks_to_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

/// Those to be passed on, and the news of an end. A hang-up that nohup had ignored stays so.
std::vector<int> signals_to_take() {
  std::vector<int> numbers{SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};
  struct sigaction action {};
  if (::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
    numbers.push_back(SIGHUP);
  return numbers;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)), signals_(signals_to_take()) {}

Supervisor::~Supervisor() {
  if (any_running()) end_all();
  try {
    wait();
  } catch (...) {  // lines that cannot be taken: what still runs is killed with children_
  }
}

size_t Supervisor::start(const Command& command) {
  const size_t number = children_.size();
  TakeLine take_line;
  if (options_.take_line)
    take_line = [this, number](Stream stream, std::string_view line) {
      options_.take_line(number, stream, line);
    };
  children_.emplace_back(command, std::move(take_line));
  return number;
}

bool Supervisor::any_running() const { return std::ranges::any_of(children_, &Child::running); }

void Supervisor::wait() {
  while (any_running()) {
    wait_for_news();
    for (auto& child : children_)
      for (const auto stream : {Stream::output, Stream::errors}) child.read(stream);
    for (const int signal : signals_.take()) pass_on(signal);
    reap();
    if (kill_at_ && steady_seconds() >= *kill_at_)
      for (const auto& child : children_) child.kill();
  }
}

void Supervisor::wait_for_news() {
  std::vector<pollfd> sources{{signals_.descriptor(), POLLIN, 0}};
  for (const auto& child : children_)
    for (const int output : child.outputs())
      if (output >= 0) sources.push_back({output, POLLIN, 0});
  int milliseconds = -1;
  if (kill_at_)
    milliseconds = static_cast<int>(std::max(0.0, *kill_at_ - steady_seconds()) * 1000) + 1;
  ::poll(sources.data(), sources.size(), milliseconds);
}

void Supervisor::pass_on(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGTSTP) {
    signal_all(SIGTSTP);
    ::raise(SIGSTOP);
    return signal_all(SIGCONT);
  }
  if (asks_to_end(signal)) return ask_to_end(signal);
  signal_all(signal);
}

void Supervisor::ask_to_end(int signal) {
  const double now = steady_seconds();
  if (asked_at_ && now - *asked_at_ < same_request_seconds) return;
  if (asked_at_ && !kill_at_) kill_at_ = now + options_.grace_seconds;
  asked_at_ = now, asked_by_ = signal;
  signal_all(signal);
}

/// An end that was asked for is no failure: the others are ending too, by their own rules.
void Supervisor::reap() {
  for (auto& child : children_) {
    if (!child.running() || child.poll() || child.status() == 0) continue;
    if (first_failure_ == 0) first_failure_ = child.status();
    const bool as_asked = asked_by_ != 0 && child.status() == 128 + asked_by_;
    if (options_.fail_together && !as_asked && !kill_at_) end_all();
  }
}

void Supervisor::end_all() {
  kill_at_ = steady_seconds() + options_.grace_seconds;
  signal_all(SIGTERM);
}

void Supervisor::signal_all(int signal) {
  for (const auto& child : children_) child.signal(signal);
}

void write_line(int descriptor, std::string_view prefix, std::string_view line) {
  std::string whole;
  whole.reserve(prefix.size() + line.size() + 1);
  whole.append(prefix).append(line) += '\n';
  for (std::string_view rest = whole; !rest.empty();) {
    const ssize_t size = ::write(descriptor, rest.data(), rest.size());
    if (size < 0 && errno != EINTR) return;
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
}

}  // namespace composer
