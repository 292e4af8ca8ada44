// The program as a user sees it on a terminal.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace composer {

/// The program on a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const std::filesystem::path& folder, const std::vector<std::string>& words,
             unsigned short columns = 80) {
    const winsize size{24, columns, 0, 0};
    id_ = forkpty(&screen_, nullptr, nullptr, &size);
    if (id_ == 0) {
      if (chdir(folder.c_str()) != 0) _exit(126);
      std::string program = PROGRAM;
      std::vector<char*> arguments{program.data()};
      for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execv(PROGRAM, arguments.data());
      _exit(127);
    }
    tcgetattr(screen_, &before_);
  }
  ~OnTerminal() {
    if (id_ > 0) kill(id_, SIGKILL), waitpid(id_, nullptr, 0);
    close(screen_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  /// What it shows from now on, until that holds `text` or it ends; everything after 20 s of
  /// silence.
  std::string until(const std::string& text) {
    std::string shown;
    pollfd ready{screen_, POLLIN, 0};
    while (shown.find(text) == std::string::npos && poll(&ready, 1, 20'000) > 0) {
      char bytes[4096];
      const auto count = read(screen_, bytes, sizeof bytes);
      if (count <= 0) break;
      shown.append(bytes, static_cast<size_t>(count));
    }
    return shown;
  }
  void resize(unsigned short rows, unsigned short columns) {
    const winsize size{rows, columns, 0, 0};
    ioctl(screen_, TIOCSWINSZ, &size);
  }
  void press(char key) { REQUIRE(write(screen_, &key, 1) == 1); }
  void signal(int number) const { kill(id_, number); }
  bool echoes() const {
    termios now{};
    return tcgetattr(screen_, &now) == 0 && (now.c_lflag & ECHO) != 0;
  }
  int wait() {
    int status = 0;
    waitpid(std::exchange(id_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = -1;
  int screen_ = -1;
  termios before_{};
};

}  // namespace composer
