#include "base/process/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <tuple>

#include "base/error.h"

namespace composer {
namespace {

/// The pipe's end to which the handler writes a byte for each signal.
std::atomic<int> writer{-1};

void note(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  std::ignore = ::write(writer, &byte, 1);
  errno = error;
}

}  // namespace

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

SignalHandlers::SignalHandlers(const std::vector<int>& numbers, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : numbers) {
    struct sigaction before {};
    ::sigaction(number, &action, &before);
    before_.emplace_back(number, before);
  }
}

SignalHandlers::~SignalHandlers() {
  for (const auto& [number, action] : before_) ::sigaction(number, &action, nullptr);
}

Signals::Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw RunError(std::string("no pipe can be made: ") + std::strerror(errno));
  reader = ends[0], writer = ends[1];
}

Signals::Pipe::~Pipe() {
  ::close(reader);
  ::close(writer);
  writer = -1;
}

Signals::Signals(const std::vector<int>& numbers) : handlers_(numbers, note) {}

std::vector<int> Signals::take() const {
  std::vector<int> all;
  std::array<unsigned char, 256> bytes;
  for (ssize_t size; (size = ::read(pipe_.reader, bytes.data(), bytes.size())) > 0;)
    all.insert(all.end(), bytes.begin(), bytes.begin() + size);
  return all;
}

}  // namespace composer
