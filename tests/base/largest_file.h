// A stand-in for a full disk: while it lives, this process may write no file beyond so many bytes.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace composer {

class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit lower{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~LargestFile() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  void (*before_)(int);
  rlimit limit_{};
};

}  // namespace composer
