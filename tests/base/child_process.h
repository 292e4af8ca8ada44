// For tests with two processes: a forked one that does something and then waits to be killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace composer {

class ChildProcess {
 public:
  /// Returns once `begin` has returned in the child; what that returned lives on there.
  template <class Begin>
  explicit ChildProcess(const Begin& begin) {
    int begun[2];
    REQUIRE(::pipe(begun) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto kept = begin();
      if (::write(begun[1], "x", 1) == 1) ::pause();
      ::_exit(1);
    }
    char byte;
    REQUIRE(::read(begun[0], &byte, 1) == 1);
    ::close(begun[0]), ::close(begun[1]);
  }
  ~ChildProcess() { kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return process_; }

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_;
};

}  // namespace composer
