// What others take of the machine while something is measured.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// From this share on the machine was busy, and times say less.
inline constexpr double busy_share = 0.1;

/// Takes times from when it is made.
class OtherPrograms {
 public:
  /// root: of the files of /proc. process: it and all that it has started are not others.
  explicit OtherPrograms(std::filesystem::path root = "/", pid_t process = ::getpid());

  /// Since then, of the time of the processors that this process may run on, what other programs
  /// had, and the host of a virtual machine; in [0, 1]. Nothing where the system does not tell, or
  /// for less than a second of a processor.
  std::optional<double> share() const;

 private:
  struct Times {
    double all = 0, busy = 0;  ///< seconds of these processors
    double own = 0;            ///< seconds of the process and what it has started
  };
  Times read() const;

  std::filesystem::path root_;
  pid_t process_;
  std::vector<int> processors_;
  Times begin_;
};

/// "other programs took 48 % of the processors' time".
std::string others_text(double share);

}  // namespace composer
