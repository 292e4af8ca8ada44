// Ranks as processes, started as any launcher starts them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/process.h"

namespace composer::test {

/// A port of this machine that nobody listens on.
inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, any, size) != 0 || ::getsockname(socket, any, &size) != 0)
    throw std::runtime_error("no free port");
  ::close(socket);
  return ntohs(address.sin_port);
}

/// `program` with `words`, once a rank. Those that are left at the end are killed.
class RankProcesses {
 public:
  RankProcesses(const std::filesystem::path& folder, int ranks,
                const std::vector<std::string>& words, const std::string& program = PROGRAM) {
    const auto port = std::to_string(free_port());
    for (int rank = 0; rank < ranks; ++rank)
      processes_.emplace_back(
          folder,
          std::vector<std::string>{"RANK=" + std::to_string(rank),
                                   "LOCAL_RANK=" + std::to_string(rank),
                                   "WORLD_SIZE=" + std::to_string(ranks), "MASTER_PORT=" + port,
                                   "OMP_NUM_THREADS=1", program} +
              words,
          "/usr/bin/env");
    outcomes_.resize(processes_.size());
  }
  ~RankProcesses() {
    for (size_t rank = 0; rank < processes_.size(); ++rank)
      if (!ended(rank)) {
        processes_[rank].signal(SIGKILL);
        processes_[rank].wait();
      }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  const Process& operator[](size_t rank) const { return processes_[rank]; }

  bool ended(size_t rank) {
    if (!outcomes_[rank]) outcomes_[rank] = processes_[rank].poll();
    return outcomes_[rank].has_value();
  }
  /// Of one that has ended.
  const Outcome& outcome(size_t rank) const { return *outcomes_[rank]; }

  /// Waits until all have ended; false when some have not by then.
  bool end_within(double seconds) {
    return within(seconds, [&] {
      bool all = true;
      for (size_t rank = 0; rank < processes_.size(); ++rank) all = ended(rank) && all;
      return all;
    });
  }

  /// Waits until it is true; false when it is not by then.
  static bool within(double seconds, const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

 private:
  std::vector<Process> processes_;
  std::vector<std::optional<Outcome>> outcomes_;
};

}  // namespace composer::test
