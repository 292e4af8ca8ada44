#include "cli/spin_count.h"

#include <cstddef>
#include <cstdlib>

namespace composer {
namespace {

/// By default libgomp spins for some milliseconds before it yields the core, which costs most of
/// the time when another program runs. 1000 spins take about ten microseconds, which does not slow
/// a step alone on the machine (benchmarks/threads.py, docs/loader.md).
char setting[] = "GOMP_SPINCOUNT=1000";
char* lent = nullptr;

/// This code runs before the sanitizers are initialized.
#define BEFORE_LIBRARIES [[gnu::no_sanitize("address", "thread", "undefined")]]

/// The entry of the environment that begins with `start`; null if there is none.
BEFORE_LIBRARIES char** find(char** environment, const char* start) {
  for (char** one = environment; *one != nullptr; ++one) {
    size_t i = 0;
    while (start[i] != '\0' && (*one)[i] == start[i]) ++i;
    if (start[i] == '\0') return one;
  }
  return nullptr;
}

/// libgomp reads its settings when it is loaded, before any constructor of the program, and the C
/// library cannot set a variable yet. The setting therefore replaces a variable that no library
/// reads while it is loaded; give_back() restores that variable.
BEFORE_LIBRARIES void set_spin_count(int, char**, char** environment) {
  if (find(environment, "OMP_WAIT_POLICY=") != nullptr ||
      find(environment, "GOMP_SPINCOUNT=") != nullptr)
    return;
  for (const char* const name : {"_=", "OLDPWD=", "PWD=", "SHLVL=", "HOSTNAME=", "LOGNAME=",
                                 "USER=", "SHELL=", "TERM=", "PATH=", "HOME="})
    if (char** const place = find(environment, name)) {
      lent = *place;
      *place = setting;
      return;
    }
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**, char**) = set_spin_count;

[[gnu::constructor(101)]] void give_back() {
  if (lent != nullptr) ::putenv(lent);
}

}  // namespace

std::string wait_settings() {
  std::string text;
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (const char* const value = std::getenv(name))
      text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
  return text;
}

}  // namespace composer
