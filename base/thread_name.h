// Names of threads, as debuggers and `top -H` show them.
#pragma once

#include <pthread.h>

#include <string>

namespace composer {

/// Names the calling thread by the first 15 bytes of `name`.
inline void set_thread_name(std::string name) {
  if (name.size() > 15) name.resize(15);
  pthread_setname_np(pthread_self(), name.c_str());
}

}  // namespace composer
