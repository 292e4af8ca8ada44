// Ctrl-C and SIGTERM in commands that leave nothing behind.
#pragma once

#include <string>

namespace composer {

/// While it lives, a signal ends the process with the line "COMMAND: interrupted; nothing is
/// reported" and the exit status 128 + signal. Work that takes over signals (composer/interrupt.h)
/// comes first, and throws Interrupted. One lives at a time.
class EndsOnSignal {
 public:
  explicit EndsOnSignal(const std::string& command);
  ~EndsOnSignal();
  EndsOnSignal(const EndsOnSignal&) = delete;
  EndsOnSignal& operator=(const EndsOnSignal&) = delete;

  /// Writes the line.
  static void tell();
};

}  // namespace composer
