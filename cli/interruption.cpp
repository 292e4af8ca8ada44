#include "cli/interruption.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace composer {
namespace {

char words[128];
struct sigaction int_before, term_before;

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
  sigaction(SIGINT, &action, &int_before);
  sigaction(SIGTERM, &action, &term_before);
}

EndsOnSignal::~EndsOnSignal() {
  sigaction(SIGINT, &int_before, nullptr);
  sigaction(SIGTERM, &term_before, nullptr);
}

/// What a handler of signals may call.
void EndsOnSignal::tell() {
  if (::write(STDERR_FILENO, words, std::strlen(words)) < 0) return;  // no one reads
}

}  // namespace composer
