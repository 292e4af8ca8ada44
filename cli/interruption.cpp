#include "cli/interruption.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "composer/interrupt.h"

namespace composer {
namespace {

char words[128];

void end(int signal) {
  EndsOnSignal::tell();
  _exit(128 + signal);
}

}  // namespace

EndsOnSignal::EndsOnSignal(const std::string& command) {
  std::snprintf(words, sizeof words, "%s: interrupted; nothing is reported\n", command.c_str());
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  for (const int signal : ending_signals()) {
    struct sigaction before {};
    ::sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  }
}

EndsOnSignal::~EndsOnSignal() {
  for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
}

/// What a handler of signals may call.
void EndsOnSignal::tell() {
  if (::write(STDERR_FILENO, words, std::strlen(words)) < 0) return;  // no one reads
}

}  // namespace composer
