#include "base/remote/remote_options.h"

#include <cstdlib>
#include <mutex>
#include <utility>

namespace composer {
namespace {

std::mutex mutex;
RemoteOptions current;

}  // namespace

void set_remote_options(RemoteOptions options) {
  const std::lock_guard lock(mutex);
  current = std::move(options);
}

RemoteOptions remote_options() {
  const std::lock_guard lock(mutex);
  return current;
}

std::string environment_value(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace composer
