#include "cli/interruption.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/process/interrupt.h"

namespace composer {
namespace {

char words[128];

void end(int signal) {
  EndsOnSignal::tell();
  _exit(128 + signal);
}

/// Sets what is told.
auto handler_of(const std::string& command) {
  std::snprintf(words, sizeof words, "%s: interrupted; nothing is reported\n", command.c_str());
  return end;
}

}  // namespace

EndsOnSignal::EndsOnSignal(const std::string& command)
    : handlers_(ending_signals(), handler_of(command)) {}

/// What a handler of signals may call.
void EndsOnSignal::tell() {
  if (::write(STDERR_FILENO, words, std::strlen(words)) < 0) return;  // no one reads
}

}  // namespace composer
