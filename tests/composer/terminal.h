// Standard error that is a terminal, or a file, for as long as a test needs it.
#pragma once

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/terminal.h"
#include "tests/temporary_folder.h"

namespace composer {

/// Puts another file in the place of standard error.
class StandardError {
 public:
  explicit StandardError(int file) : kept_(dup(STDERR_FILENO)) {
    std::fflush(stderr);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~StandardError() { restore(); }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  void restore() {
    if (kept_ < 0) return;
    std::fflush(stderr);
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    kept_ = -1;
  }

 private:
  int kept_;
};

class TerminalForTest {
 public:
  explicit TerminalForTest(int columns) : error_(open()) {
    resize(columns);
    reader_ = std::thread([this] {
      char bytes[4096];
      for (ssize_t n; (n = read(screen_, bytes, sizeof bytes)) > 0;)
        text_.append(bytes, static_cast<size_t>(n));
    });
  }
  ~TerminalForTest() {
    text();
    close(screen_);
  }

  void resize(int columns) {
    winsize size{};
    size.ws_row = 24, size.ws_col = static_cast<unsigned short>(columns);
    ioctl(screen_, TIOCSWINSZ, &size);
  }

  /// All that was written; standard error is the test program's own again.
  const std::string& text() {
    error_.restore();
    if (reader_.joinable()) reader_.join();
    return text_;
  }

 private:
  int open() {
    int program = -1;
    if (openpty(&screen_, &program, nullptr, nullptr, nullptr) != 0)
      throw std::runtime_error("no terminal");
    return program;
  }

  int screen_ = -1;
  StandardError error_;
  std::string text_;
  std::thread reader_;
};

/// What `action` writes where there is no terminal.
template <class Action>
std::string standard_error_of(const Action& action) {
  const TemporaryFolder folder;
  const auto path = folder / "log";
  {
    const StandardError error(::open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    action();
  }
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Text between line ends and returns to the line's beginning, without escape sequences.
inline std::vector<std::string> drawn_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
    } else if (text[i] == '\r' || text[i] == '\n') {
      if (!lines.back().empty()) lines.emplace_back();
    } else {
      lines.back() += text[i];
    }
  }
  return lines;
}

inline int64_t widest(const std::vector<std::string>& lines) {
  int64_t columns = 0;
  for (const auto& line : lines) columns = std::max(columns, columns_of(line));
  return columns;
}

}  // namespace composer
