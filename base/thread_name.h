// Names of threads, as debuggers and `top -H` show them.
#pragma once

#include <pthread.h>

#include <string>

namespace composer {

/// Names the calling thread. The first 15 bytes count.
inline void set_thread_name(std::string name) {
  if (name.size() > 15) name.resize(15);
  pthread_setname_np(pthread_self(), name.c_str());
}

}  // namespace composer
