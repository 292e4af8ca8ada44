// Signals that ask for the end, in commands that leave nothing behind.
#pragma once

#include <string>

#include "base/process/signals.h"

namespace composer {

/// While it lives, one of ending_signals() ends the process with the line "COMMAND: interrupted;
/// nothing is reported" and the exit status 128 + signal. Work that takes over signals
/// (base/process/interrupt.h) comes first, and throws Interrupted. One lives at a time.
class EndsOnSignal {
 public:
  explicit EndsOnSignal(const std::string& command);

  /// Writes the line.
  static void tell();

 private:
  SignalHandlers handlers_;
};

}  // namespace composer
