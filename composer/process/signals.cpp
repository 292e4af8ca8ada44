#include "composer/process/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <tuple>

#include "composer/error.h"

namespace composer {
namespace {

/// Where the handler leaves a byte for each signal.
std::atomic<int> writer{-1};

void note(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  std::ignore = ::write(writer, &byte, 1);
  errno = error;
}

}  // namespace

Signals::Signals(const std::vector<int>& numbers) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw RunError(std::string("no pipe can be made: ") + std::strerror(errno));
  reader_ = ends[0], writer = ends[1];
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : numbers) {
    struct sigaction before {};
    ::sigaction(number, &action, &before);
    before_.emplace_back(number, before);
  }
}

Signals::~Signals() {
  for (const auto& [number, action] : before_) ::sigaction(number, &action, nullptr);
  ::close(std::exchange(reader_, -1));
  ::close(writer);
  writer = -1;
}

std::vector<int> Signals::take() const {
  std::vector<int> all;
  std::array<unsigned char, 256> bytes;
  for (ssize_t size; (size = ::read(reader_, bytes.data(), bytes.size())) > 0;)
    all.insert(all.end(), bytes.begin(), bytes.begin() + size);
  return all;
}

}  // namespace composer
