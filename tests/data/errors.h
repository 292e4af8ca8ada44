// For tests of what the log says.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "tests/files.h"

namespace composer::test {

/// What is written on the standard error while it lives.
class Errors {
 public:
  explicit Errors(const std::string& file) : file_(file), before_(::dup(STDERR_FILENO)) {
    const int to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(to, STDERR_FILENO);
    ::close(to);
  }
  ~Errors() { restore(); }
  std::string text() {
    restore();
    return read_bytes(file_);
  }

 private:
  void restore() {
    if (before_ < 0) return;
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    before_ = -1;
  }
  std::string file_;
  int before_;
};

}  // namespace composer::test
