#include "base/process/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/process/signals.h"

namespace composer {
namespace {

/// Seconds between checks of a group whose child has ended: no signal tells when the group ends.
constexpr double look_seconds = 0.05;

/// Seconds between calls of SupervisorOptions::look.
constexpr double watch_seconds = 0.4;

constexpr std::array streams{Stream::output, Stream::errors};

/// A signal that asks for the end.
bool asks_to_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT ||
         signal == SIGUSR1;
}

/// The signals to pass on; SIGCHLD; and SIGPIPE, which is handled because children would inherit an
/// ignored one. Ignored SIGHUP (nohup), SIGUSR1 and SIGPIPE stay ignored.
std::vector<int> signals_to_take() {
  std::vector<int> numbers{SIGINT, SIGTERM, SIGQUIT, SIGUSR2, SIGTSTP, SIGCHLD};
  for (const int number : {SIGHUP, SIGUSR1, SIGPIPE})
    if (!is_ignored(number)) numbers.push_back(number);
  return numbers;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)), signals_(signals_to_take()) {}

Supervisor::~Supervisor() {
  if (any_running()) end();
  try {
    wait();
  } catch (...) {  // take_line has thrown: running children are killed with children_
  }
}

size_t Supervisor::start(const Command& command, bool heard) {
  const size_t number = children_.size();
  TakeLine take_line;
  if (heard && options_.take_line)
    take_line = [this, number](Stream stream, std::string_view line) {
      options_.take_line(number, stream, line);
    };
  children_.emplace_back(command, std::move(take_line));
  return number;
}

bool Supervisor::any_running() const { return std::ranges::any_of(children_, &Child::running); }

bool Supervisor::to_be_written() const {
  return std::ranges::any_of(options_.writers,
                             [](const auto* writer) { return writer && writer->waits(); });
}

bool Supervisor::may_read(Stream stream) const {
  const auto* writer = options_.writers[static_cast<size_t>(stream)];
  return writer == nullptr || !writer->full();
}

void Supervisor::wait() {
  while (any_running() || to_be_written()) {
    wait_for_news();
    read_and_write();
    for (const int signal : signals_.take()) pass_on(signal);
    reap();
    if (options_.look && any_running() && steady_seconds() >= next_look_) {
      options_.look();
      next_look_ = steady_seconds() + watch_seconds;
    }
    end_those_due();
  }
}

void Supervisor::end_those_due() {
  const double now = steady_seconds();
  if (end_at_ && !ending_ && now >= *end_at_) end();
  if (follow_at_ && now >= *follow_at_) {
    follow_at_ = std::numeric_limits<double>::infinity();
    if (asked_by_ == 0 && !ending_) signal_all(SIGTERM);
    kill_by(now + options_.first_grace_seconds);
  }
  if (!kill_at_ || now < *kill_at_) return;
  if (const double until = spared_until(); until > now) {
    kill_at_ = until;
    return;
  }
  ending_ = true;
  for (const auto& child : children_) child.kill();
}

void Supervisor::wait_for_news() {
  std::vector<pollfd> sources{{signals_.descriptor(), POLLIN, 0}};
  for (const auto& child : children_)
    for (const auto stream : streams)
      if (const int output = child.outputs()[static_cast<size_t>(stream)];
          output >= 0 && may_read(stream))
        sources.push_back({output, POLLIN, 0});
  for (const auto* writer : options_.writers)
    if (writer && writer->waits()) sources.push_back({writer->descriptor(), POLLOUT, 0});
  const double seconds = seconds_to_wait();
  ::poll(sources.data(), sources.size(),
         std::isinf(seconds) ? -1 : static_cast<int>(seconds * 1000) + 1);
}

/// Seconds until the next task that no descriptor announces.
double Supervisor::seconds_to_wait() const {
  double seconds = std::numeric_limits<double>::infinity();
  if (!any_running()) return seconds;
  const double now = steady_seconds();
  for (const auto& at : {ending_ ? std::nullopt : end_at_, follow_at_, kill_at_})
    if (at) seconds = std::min(seconds, std::max(0.0, *at - now));
  if (options_.look) seconds = std::min(seconds, std::max(0.0, next_look_ - now));
  if (std::ranges::any_of(children_, &Child::only_rest_runs))
    seconds = std::min(seconds, look_seconds);
  return seconds;
}

void Supervisor::read_and_write() {
  for (auto& child : children_)
    for (const auto stream : streams)
      if (may_read(stream)) child.read(stream);
  for (auto* writer : options_.writers)
    if (writer) writer->write();
}

void Supervisor::pass_on(int signal) {
  if (signal == SIGCHLD || signal == SIGPIPE) return;
  if (signal == SIGTSTP) return stop_together();
  if (asks_to_end(signal)) return ask_to_end(signal);
  for (const auto& child : children_) child.signal(signal);
}

/// Raises SIGTSTP with its default action, so that this process does not stop where nobody could
/// continue it.
void Supervisor::stop_together() {
  signal_all(SIGTSTP);
  struct sigaction stop {
  }, before{};
  stop.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &stop, &before);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &before, nullptr);
  signal_all(SIGCONT);
}

void Supervisor::ask_to_end(int signal) {
  if (!any_running())
    for (auto* writer : options_.writers)
      if (writer) writer->give_up();
  const double now = steady_seconds();
  if (asked_at_ && now - *asked_at_ < same_request_seconds) return;
  if (!asked_at_) kill_by(now + options_.first_grace_seconds);
  if (asked_at_ && !std::exchange(ending_, true)) kill_by(now + options_.grace_seconds);
  asked_at_ = now, asked_by_ = signal;
  signal_all(signal);
}

/// A child that ends by the requested signal has not failed: the others are ending too.
void Supervisor::reap() {
  for (size_t i = 0; i < children_.size(); ++i) {
    auto& child = children_[i];
    if (!child.running() || child.poll(rest_seconds()) || child.status() == 0) continue;
    if (first_failure_ == 0) first_failure_ = child.status();
    const bool as_asked = asked_by_ != 0 && child.status() == 128 + asked_by_;
    if (as_asked || ending_) continue;
    const bool fails = !options_.fails || options_.fails(child.status());
    if (fails) failed_.push_back(i);
    auto& at = fails ? end_at_ : follow_at_;
    if (options_.fail_together && !at) at = steady_seconds() + options_.settle_seconds;
  }
}

void Supervisor::end(std::optional<double> grace_seconds) {
  if (std::exchange(ending_, true)) return;
  kill_by(steady_seconds() + grace_seconds.value_or(options_.grace_seconds));
  signal_all(SIGTERM);
}

/// The time until which children are spared; 0 when they are not.
double Supervisor::spared_until() const {
  return ending_since_ && options_.spared_until ? options_.spared_until(*ending_since_) : 0;
}

void Supervisor::kill_by(double time) {
  if (!std::isfinite(time)) return;
  if (!ending_since_) ending_since_ = steady_seconds();
  if (!kill_at_ || time < *kill_at_) kill_at_ = time;
}

void Supervisor::signal_all(int signal) {
  for (const auto& child : children_) child.signal_group(signal);
}

/// Seconds for a group after its child has ended: where the child is a shell, its group may be
/// saving.
double Supervisor::rest_seconds() const {
  const double now = steady_seconds();
  const bool over = kill_at_ && now >= *kill_at_;
  if (spared_until() > now) return std::numeric_limits<double>::infinity();
  return (asked_at_ || kill_at_) && !over ? options_.grace_seconds : 0;
}

}  // namespace composer
