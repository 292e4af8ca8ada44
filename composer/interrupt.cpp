#include "composer/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace composer {
namespace {

volatile std::sig_atomic_t received = 0;
struct sigaction previous_int, previous_term;

void handle(int signal) {
  if (received != 0) _exit(128 + signal);
  received = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int received_signal() { return received; }

}  // namespace composer
